"""Writes a bundle."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from toolchain.arrays import Array
from toolchain.bundles import layout
from toolchain.bundles.manifest import File, Manifest, Tensor, expected_folder, sample_folder
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.quantities import counted

# Tensors as `.npy` members: version 1.0, little-endian, C order, never pickled.

_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNMENT = 64
_GROWTH = 21  # numpy reserves room for a first axis of 21 digits; so do we, to write the same bytes


def header(spec: Tensor) -> bytes:
    """Return the `.npy` header of a tensor, the same bytes that numpy.save writes.

    Readers compare with these bytes instead of parsing: numpy's parser evaluates Python literals and raises
    many kinds of errors for bad ones.
    """
    text = f"{{'descr': {stored_dtype(spec).str!r}, 'fortran_order': False, 'shape': {spec.shape!r}, }}"
    if spec.shape:
        text += " " * (_GROWTH - len(str(spec.shape[0])))
    return framed(text)


def framed(text: str) -> bytes:
    """Return the `.npy` header with this text: behind the magic, and padded as the format demands."""
    text += " " * (-(len(_MAGIC) + 2 + len(text) + 1) % _ALIGNMENT) + "\n"
    return _MAGIC + len(text).to_bytes(2, "little") + text.encode("ascii")


def encode(array: Array, spec: Tensor) -> bytes:
    """Return the bytes of the member for `array`.

    Raises
    ------
    ValueError
        The array's shape or dtype differs from `spec`.
    """
    if tuple(array.shape) != spec.shape or array.dtype.name != spec.dtype:
        raise ValueError(f"{form(array.dtype.name, array.shape)}, expected {form(spec.dtype, spec.shape)}")
    return header(spec) + array.astype(stored_dtype(spec), copy=False).tobytes(order="C")


def decode(data: bytes, spec: Tensor) -> Array:
    """Return the array in a member as a read-only view of `data`.

    Raises
    ------
    ValueError
        The member is no `.npy` file, or its shape or dtype differs from `spec`.
    """
    start = header(spec)
    if not data.startswith(start):
        raise ValueError(f"its header is not that of {form(spec.dtype, spec.shape)}")
    if len(data) - len(start) != spec.nbytes:
        raise ValueError(f"{counted(len(data) - len(start), 'byte')} of elements, expected {spec.nbytes}")
    return np.frombuffer(data, stored_dtype(spec), offset=len(start)).reshape(spec.shape)


def stored_dtype(spec: Tensor) -> np.dtype[Any]:
    """Return the dtype of a tensor's elements in a file, which are little-endian."""
    return np.dtype(spec.dtype).newbyteorder("<")


def form(dtype: str, shape: Sequence[int]) -> str:
    """Return type and shape as messages say them: `float32[1,3,224,224]`."""
    return f"{dtype}[{','.join(map(str, shape))}]"


_CHUNK = 2**20


def write_bundle(
    path: Path,
    manifest: Manifest,
    library: Path | bytes,
    sample: Mapping[str, Array],
    expected: Mapping[str, Array],
    others: Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]] = (),
) -> str:
    """Write a bundle atomically; equal arguments give equal bytes.

    Parameters
    ----------
    path
        The file to write; the bytes do not depend on it.
    manifest
        The manifest without `files`, which is filled in here.
    library
        The library, or the tar of its objects (`manifest.format`).
    sample
        Input name -> array, with the shapes and dtypes of the manifest's inputs.
    expected
        Output name -> array that the reference computes from `sample`.
    others
        Sample and expected outputs for each of the manifest's other `shapes`.

    Returns
    -------
    str
        SHA-256 of the file.

    Raises
    ------
    UsageError
        An array is missing, or its shape or dtype differs from the manifest.
    ToolchainError
        The library cannot be read, a limit is exceeded, or the file system refuses.
    """
    tensors: dict[str, bytes] = {}
    cases = [(sample, expected), *others]
    for place, ((inputs, outputs), case) in enumerate(zip(manifest.signatures, cases, strict=True)):
        tensors |= _encoded(sample_folder(place), inputs, case[0])
        tensors |= _encoded(expected_folder(place), outputs, case[1])
    with _open(library) as source:
        return _write(path, manifest, source, tensors)


def _write(path: Path, manifest: Manifest, library: BufferedIOBase, tensors: Mapping[str, bytes]) -> str:
    content = {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in tensors.items()}
    digest = hashlib.sha256()
    size = sum(len(chunk) for chunk in _chunks(library, digest))
    content[manifest.library_member] = (size, digest.hexdigest())
    files = {name: File(size=size, sha256=digest) for name, (size, digest) in content.items()}
    text = manifest.model_copy(update={"files": files}).to_json()
    sizes = {layout.MANIFEST: len(text), **{name: file.size for name, file in files.items()}}
    if problem := layout.limit_problem(sizes):
        raise ToolchainError(f"cannot make the bundle {path}: {problem}", "use a smaller network or batch")
    line = layout.sum_line(hashlib.sha256(text).hexdigest())
    with atomic.replacing(path) as temporary, temporary.open("wb") as file:
        out = _Writer(file)
        out.member(layout.MANIFEST, len(text), [text])
        out.member(layout.MANIFEST_SHA256, len(line), [line])
        for name in manifest.members():
            data = tensors.get(name)
            again = hashlib.sha256()
            out.member(name, files[name].size, [data] if data is not None else _chunks(library, again))
            if data is None and again.digest() != digest.digest():
                raise ToolchainError(f"the library for {path} changed while it was bundled", "build it again")
        return out.end()


class _Writer:
    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def put(self, data: bytes) -> None:
        self.file.write(data)
        self.digest.update(data)
        self.size += len(data)

    def member(self, name: str, size: int, chunks: Sequence[bytes] | Iterator[bytes]) -> None:
        self.put(layout.header(name, size))
        for chunk in chunks:
            self.put(chunk)
        self.put(layout.padding(size))

    def end(self) -> str:
        self.put(bytes(2 * layout.BLOCK))
        self.put(layout.padding(self.size, layout.RECORD))
        return self.digest.hexdigest()


def _encoded(folder: str, specs: Sequence[Tensor], arrays: Mapping[str, Array]) -> dict[str, bytes]:
    names = [spec.name for spec in specs]
    if set(names) != set(arrays):
        raise UsageError(
            f"{folder}: got tensors {sorted(arrays)}, expected {names}", "give each of them once"
        )
    encoded = {}
    for position, spec in enumerate(specs):
        try:
            encoded[f"{folder}/{position}.npy"] = encode(arrays[spec.name], spec)
        except ValueError as error:
            raise UsageError(
                f"{folder} {spec.name!r} is {error}", "give an array of that shape and dtype"
            ) from error
    return encoded


def _open(library: Path | bytes) -> BufferedIOBase:
    try:
        return io.BytesIO(library) if isinstance(library, bytes) else library.open("rb")
    except OSError as error:
        raise ToolchainError(
            f"cannot read the library {library!s}: {error.strerror}", "build it again"
        ) from error


def _chunks(library: BufferedIOBase, digest: hashlib._Hash) -> Iterator[bytes]:
    library.seek(0)
    while chunk := library.read(_CHUNK):
        digest.update(chunk)
        yield chunk

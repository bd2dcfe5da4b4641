"""Reading a bundle: nothing is extracted, and nothing believed before it is checked.

The file is compared, from its first byte to its last, with the only form that its manifest allows
(see `layout`), so a byte changed anywhere is noticed. That is a check of integrity, not of origin:
who can write a bundle can write its sums too.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from pydantic import ValidationError

from toolchain.bundles import layout
from toolchain.bundles.manifest import SCHEMA_VERSION, Manifest, Tensor
from toolchain.bundles.tensors import decode
from toolchain.errors import CheckError, UsageError

_REBUILD = "build or copy it again"


@dataclass(frozen=True)
class Bundle:
    """A bundle that passed its checks, held in memory.

    Attributes
    ----------
    path
        Where it was read from.
    manifest
        What it says about itself.
    library
        The library, or the tar of its objects (`manifest.format`).
    sample
        Input name -> array, in the order of the network's inputs; read-only.
    expected
        Output name -> array, in the order of the network's outputs; read-only.
    sha256
        Of the whole file.
    """

    path: Path
    manifest: Manifest
    library: bytes
    sample: dict[str, np.ndarray[Any, Any]]
    expected: dict[str, np.ndarray[Any, Any]]
    sha256: str


def read_bundle(path: Path) -> Bundle:
    """Read and check a bundle.

    Raises
    ------
    UsageError
        It is missing, unreadable, truncated, not a bundle, or made by a newer toolchain.
    CheckError
        A byte was changed, or a member is huge, foreign, or not a plain file.
    """
    try:
        # Without waiting: opening a pipe would block until someone writes to it.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is not a file", "give the bundle that `toolchain build` wrote")
            return _read(_Reader(path, file, status.st_size))
    except OSError as error:
        raise UsageError(
            f"cannot read the bundle {path}: {error.strerror}", "give the bundle that `toolchain build` wrote"
        ) from error


class _Reader:
    """The file so far: what is left of it, and the sum of what was read."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self.path = path
        self.file = file
        self.left = size
        self.position = 0
        self.digest = hashlib.sha256()

    def refused(self, reason: str) -> CheckError:
        return CheckError(f"bundle {self.path} fails its check: {reason}", _REBUILD)

    def take(self, size: int) -> bytes:
        # Compared before reading: a size that the file cannot hold costs no memory.
        data = self.file.read(size) if size <= self.left else b""
        if len(data) != size:
            raise UsageError(
                f"bundle {self.path} is truncated: {self.position + self.left} bytes, "
                f"but at least {self.position + size} belong to it",
                _REBUILD,
            )
        self.left -= size
        self.position += size
        self.digest.update(data)
        return data

    def first_size(self) -> int:
        """Read the manifest's header, the only one whose size is not known beforehand."""
        if self.left < layout.BLOCK:
            raise UsageError(f"{self.path} is truncated or not a bundle: it has {self.left} bytes", _REBUILD)
        block = self.take(layout.BLOCK)
        found = layout.parse_header(block)
        if found is None or not (found.hostile or found.path == layout.MANIFEST):
            first = f", its first member is {found}" if found else ""
            raise UsageError(
                f"{self.path} is not a bundle{first}", "give the bundle that `toolchain build` wrote"
            )
        size = found.size
        if size is None or block != layout.header(layout.MANIFEST, size):
            raise self.refused(f"its first member is {found}, expected a plain {layout.MANIFEST}")
        if problem := layout.limit_problem({layout.MANIFEST: size}):
            raise self.refused(problem)
        return size

    def content(self, size: int) -> bytes:
        data = self.take(size)
        if any(self.take(-size % layout.BLOCK)):
            raise self.refused(f"bytes before {self.position} are not zero")
        return data

    def member(self, name: str, size: int) -> bytes:
        block = self.take(layout.BLOCK)
        if block != layout.header(name, size):
            found = layout.parse_header(block) or "a damaged header"
            raise self.refused(f"it holds {found} where {name} of {size} bytes is expected")
        return self.content(size)

    def end(self) -> None:
        block = self.take(layout.BLOCK)
        if found := layout.parse_header(block):
            raise self.refused(f"it holds {found}, which no bundle does")
        rest = self.take(layout.BLOCK + -(self.position + layout.BLOCK) % layout.RECORD)
        if any(block) or any(rest):
            raise self.refused("bytes after its last member are not zero")
        if self.left:
            raise self.refused(f"{self.left} bytes follow its end")


def _read(reader: _Reader) -> Bundle:
    text = reader.content(reader.first_size())
    line = layout.sum_line(hashlib.sha256(text).hexdigest())
    if reader.member(layout.MANIFEST_SHA256, len(line)) != line:
        raise reader.refused(f"{layout.MANIFEST} is not the one that {layout.MANIFEST_SHA256} speaks of")
    manifest = _manifest(reader, text)
    content = {}
    for name in manifest.members():
        content[name] = reader.member(name, manifest.files[name].size)
        if hashlib.sha256(content[name]).hexdigest() != manifest.files[name].sha256:
            raise reader.refused(f"{name} is not the one that {layout.MANIFEST} speaks of")
    reader.end()
    sample, expected = (
        _tensors(reader, folder, specs, content)
        for folder, specs in (("sample", manifest.inputs), ("expected", manifest.outputs))
    )
    library = content[manifest.library_member]
    return Bundle(reader.path, manifest, library, sample, expected, reader.digest.hexdigest())


def _manifest(reader: _Reader, text: bytes) -> Manifest:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise reader.refused(f"{layout.MANIFEST} is not JSON: {error}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UsageError(
            f"bundle {reader.path} was made by a newer toolchain: its schema_version is {version}, "
            f"this one reads up to {SCHEMA_VERSION}",
            "upgrade with: pip install --upgrade edge-toolchain",
        )
    try:
        manifest = Manifest.model_validate(values)
    except (ValidationError, RecursionError) as error:
        raise reader.refused(f"{layout.MANIFEST}: {_explain(error)}") from error
    if set(manifest.files) != set(manifest.members()):
        differing = sorted(set(manifest.files) ^ set(manifest.members()))
        raise reader.refused(f"{layout.MANIFEST}: files and tensors differ in {', '.join(differing)}")
    if problem := layout.limit_problem({name: file.size for name, file in manifest.files.items()}):
        raise reader.refused(problem)
    return manifest


def _explain(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "its values are nested too deeply"
    problems = error.errors(include_url=False)
    return "; ".join(f"{'.'.join(map(str, p['loc'])) or 'it'}: {p['msg']}" for p in problems[:5])


def _tensors(
    reader: _Reader, folder: str, specs: tuple[Tensor, ...], content: dict[str, bytes]
) -> dict[str, np.ndarray[Any, Any]]:
    arrays = {}
    for position, spec in enumerate(specs):
        member = f"{folder}/{position}.npy"
        try:
            arrays[spec.name] = decode(content[member], spec)
        except ValueError as error:
            raise reader.refused(f"{member} ({spec.name!r}): {error}") from error
    return arrays

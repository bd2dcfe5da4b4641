"""Reads a bundle without extracting it, and checks everything before using it.

The whole file is compared with the only layout that its manifest allows (see `layout`), so every changed
byte is detected. This checks integrity, not origin: whoever can write a bundle can write its checksums too.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import from_json

from toolchain.arrays import Array
from toolchain.bundles import layout
from toolchain.bundles.manifest import (
    ONE_SHAPE,
    SCHEMA_VERSION,
    Manifest,
    Tensor,
    expected_folder,
    sample_folder,
)
from toolchain.bundles.migration import migrated
from toolchain.bundles.reader import Reader
from toolchain.bundles.tensors import decode
from toolchain.errors import UsageError
from toolchain.files.plain import open_plain


@dataclass(frozen=True)
class Bundle:
    """A bundle that passed its checks, held in memory.

    Attributes
    ----------
    path
        The file that was read.
    manifest
        Its manifest.
    library
        The library, or the tar of its objects (`manifest.format`).
    sample
        Input name -> array, in the order of the network's inputs; read-only.
    expected
        Output name -> array, in the order of the network's outputs; read-only.
    sha256
        Digest of the whole file.
    others
        Sample and expected outputs for each of the manifest's other `shapes`.
    """

    path: Path
    manifest: Manifest
    library: bytes
    sample: dict[str, Array]
    expected: dict[str, Array]
    sha256: str
    others: tuple[tuple[dict[str, Array], dict[str, Array]], ...] = ()

    def each(self) -> list[Bundle]:
        """Return the bundle as one of each of its shapes alone, the smallest first."""
        manifest = self.manifest
        if not manifest.shapes:
            return [self]
        version = manifest.schema_version if manifest.by_parts else ONE_SHAPE
        single = {"schema_version": version, "shapes": (), "pad": False}
        found = [replace(self, manifest=manifest.model_copy(update=single), others=())]
        for shape, (sample, expected) in zip(manifest.shapes, self.others, strict=True):
            update = {
                **single,
                "inputs": shape.inputs,
                "outputs": shape.outputs,
                "tolerances": shape.tolerances,
                "parts": shape.parts,
                "model": manifest.model.model_copy(update={"flops": shape.flops}),
            }
            alone = manifest.model_copy(update=update)
            found.append(replace(self, manifest=alone, sample=sample, expected=expected, others=()))
        return found[::-1]


def read_bundle(path: Path) -> Bundle:
    """Read and check a bundle.

    Raises
    ------
    UsageError
        The file is missing, unreadable, truncated, not a bundle, or made by a newer toolchain.
    CheckError
        A byte was changed, or a member is too large, unknown, or not a regular file.
    """
    try:
        with open_plain(path) as file:
            return _read(Reader(path, file, os.fstat(file.fileno()).st_size))
    except OSError as error:
        raise UsageError(
            f"cannot read the bundle {path}: {error.strerror}", "give the bundle that `toolchain build` wrote"
        ) from error


def _read(reader: Reader) -> Bundle:
    text = reader.content(reader.first_size())
    line = layout.sum_line(hashlib.sha256(text).hexdigest())
    if reader.member(layout.MANIFEST_SHA256, len(line)) != line:
        raise reader.refused(f"{layout.MANIFEST} does not match its digest in {layout.MANIFEST_SHA256}")
    manifest = _manifest(reader, text)
    content = {}
    for name in manifest.members():
        content[name] = reader.member(name, manifest.files[name].size)
        if hashlib.sha256(content[name]).hexdigest() != manifest.files[name].sha256:
            raise reader.refused(f"{name} does not match its digest in {layout.MANIFEST}")
    reader.end()
    (sample, expected), *others = (
        (
            _tensors(reader, sample_folder(place), inputs, content),
            _tensors(reader, expected_folder(place), outputs, content),
        )
        for place, (inputs, outputs) in enumerate(manifest.signatures)
    )
    library, digest = content[manifest.library_member], reader.digest.hexdigest()
    return Bundle(reader.path, manifest, library, sample, expected, digest, tuple(others))


def _manifest(reader: Reader, text: bytes) -> Manifest:
    try:
        # Not json.loads: it accepts lone surrogates, on which pydantic's models crash.
        values = from_json(text)
    except ValueError as error:
        raise reader.refused(f"{layout.MANIFEST} is not JSON: {error}") from error
    said = values.get("schema_version") if isinstance(values, dict) else None
    version: int | None = said if type(said) is int else None
    if version is not None and version > SCHEMA_VERSION:
        raise UsageError(
            f"bundle {reader.path} was made by a newer toolchain: its schema_version is {version}, "
            f"this one reads up to {SCHEMA_VERSION}",
            "upgrade with: pip install --upgrade edge-toolchain",
        )
    try:
        manifest = Manifest.model_validate(values if version is None else migrated(values, version))
    except ValidationError as error:
        raise reader.refused(f"{layout.MANIFEST}: {_explain(error)}") from error
    except ValueError as error:
        raise reader.refused(f"{layout.MANIFEST}: {error}") from error
    if set(manifest.files) != set(manifest.members()):
        differing = sorted(set(manifest.files) ^ set(manifest.members()))
        raise reader.refused(f"{layout.MANIFEST}: files and tensors differ in {', '.join(differing)}")
    if problem := layout.limit_problem({name: file.size for name, file in manifest.files.items()}):
        raise reader.refused(problem)
    return manifest


def _explain(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    return "; ".join(f"{'.'.join(map(str, p['loc'])) or 'it'}: {p['msg']}" for p in problems[:5])


def _tensors(
    reader: Reader, folder: str, specs: tuple[Tensor, ...], content: dict[str, bytes]
) -> dict[str, Array]:
    arrays = {}
    for position, spec in enumerate(specs):
        member = f"{folder}/{position}.npy"
        try:
            arrays[spec.name] = decode(content[member], spec)
        except ValueError as error:
            raise reader.refused(f"{member} ({spec.name!r}): {error}") from error
    return arrays

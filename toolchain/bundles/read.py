"""Reads a bundle without extracting it, and checks everything before using it.

The whole file is compared with the only layout that its manifest allows (see `layout`), so every changed
byte is detected. This checks integrity, not origin: whoever can write a bundle can write its checksums too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

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
from toolchain.bundles.write import decode
from toolchain.errors import CheckError, UsageError
from toolchain.files.plain import open_plain
from toolchain.quantities import counted

# Reads the bytes of a bundle in order and compares them with the layout.

REBUILD = "copy it again, or build it again: `toolchain build MODEL --board BOARD -o DIR`"


class Reader:
    """A bundle's file, the number of bytes left to read, and the digest of those read."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self.path = path
        self.file = file
        self.left = size
        self.position = 0
        self.digest = hashlib.sha256()

    def refused(self, reason: str) -> CheckError:
        return CheckError(f"bundle {self.path} fails its check: {reason}", REBUILD)

    def take(self, size: int) -> bytes:
        # Check first, so that a size beyond the end of the file allocates no memory.
        data = self.file.read(size) if size <= self.left else b""
        if len(data) != size:
            raise UsageError(
                f"bundle {self.path} is truncated: it has {counted(self.position + self.left, 'byte')}, "
                f"but needs at least {self.position + size}",
                REBUILD,
            )
        self.left -= size
        self.position += size
        self.digest.update(data)
        return data

    def first_size(self) -> int:
        """Read the manifest's header and return the manifest's size, the only one not known beforehand."""
        if self.left < layout.BLOCK:
            raise UsageError(
                f"{self.path} is truncated or not a bundle: it has {counted(self.left, 'byte')}", REBUILD
            )
        block = self.take(layout.BLOCK)
        header = layout.parse_header(block)
        if header is None or not (header.hostile or header.path == layout.MANIFEST):
            first = f", its first member is {header}" if header else ""
            raise UsageError(
                f"{self.path} is not a bundle{first}", "give the bundle that `toolchain build` wrote"
            )
        size = header.size
        if size is None or block != layout.header(layout.MANIFEST, size):
            raise self.refused(f"its first member is {header}, expected a plain {layout.MANIFEST}")
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
            header = layout.parse_header(block) or "a damaged header"
            raise self.refused(f"it has {header} where {name} of {counted(size, 'byte')} is expected")
        return self.content(size)

    def end(self) -> None:
        block = self.take(layout.BLOCK)
        if header := layout.parse_header(block):
            raise self.refused(f"it has an unknown member {header}")
        rest = self.take(layout.BLOCK + -(self.position + layout.BLOCK) % layout.RECORD)
        if any(block) or any(rest):
            raise self.refused("bytes after its last member are not zero")
        if self.left:
            raise self.refused(f"{counted(self.left, 'byte follows', 'bytes follow')} its end")


# Migrates manifests of earlier versions to the current schema, one step per version.

_Values = dict[str, Any]


def migrated(values: _Values, version: int) -> _Values:
    """Return a manifest's values migrated to `ONE_SHAPE`, or those of a newer version as they are.

    Parameters
    ----------
    values
        Values of a manifest of the given version; they are not changed.

    Raises
    ------
    ValueError
        The version never existed, or a key belongs to a later version.
    """
    while version < ONE_SHAPE:
        if version not in _STEPS:
            raise ValueError(f"schema_version is {version}: the first one was {min(_STEPS)}")
        version, values = version + 1, _STEPS[version](values)
    if version < SCHEMA_VERSION and (late := sorted({"parts", "reference", "sample"} & values.keys())):
        raise ValueError(f"{', '.join(late)}: no key of version {version}, but of {SCHEMA_VERSION}")
    if version == ONE_SHAPE and (early := sorted({"shapes", "pad"} & values.keys())):
        raise ValueError(f"{', '.join(early)}: no key of version {ONE_SHAPE}, but of {ONE_SHAPE + 1}")
    return values


def _from_1(values: _Values) -> _Values:
    """Add the device and its requirements: version 1 supported only CPUs, which have none."""
    return _with_new(values, 2, {"device": "cpu", "runtime": {"devices": [], "functions": []}})


def _with_new(values: _Values, version: int, new: _Values) -> _Values:
    if early := sorted(new.keys() & values.keys()):
        raise ValueError(f"{', '.join(early)}: no key of version {version - 1}, but of {version}")
    return {**values, **new, "schema_version": version}


def _from_2(values: _Values) -> _Values:
    """Add the facts about quantising: version 2 had no quantised networks."""
    return _with_new(values, 3, {"quantising": None})


def _from_3(values: _Values) -> _Values:
    """Add tolerances of single outputs: version 3 had one tolerance for all outputs."""
    return _with_new(values, 4, {"tolerances": []})


def _from_4(values: _Values) -> _Values:
    """Add the rates, which were the class's. Tasks gain keys that have defaults."""
    return _with_new(values, 5, {"rates": {"of": "class", "cores": None}})


_STEPS: dict[int, Callable[[_Values], _Values]] = {1: _from_1, 2: _from_2, 3: _from_3, 4: _from_4}


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
        """Return a bundle for each of its shapes, the smallest first."""
        manifest = self.manifest
        if not manifest.shapes:
            return [self]
        version = manifest.schema_version if manifest.by_parts else ONE_SHAPE
        single = {"schema_version": version, "shapes": (), "pad": False}
        bundles = [replace(self, manifest=manifest.model_copy(update=single), others=())]
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
            bundles.append(replace(self, manifest=alone, sample=sample, expected=expected, others=()))
        return bundles[::-1]


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
    stated = values.get("schema_version") if isinstance(values, dict) else None
    version: int | None = stated if type(stated) is int else None
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

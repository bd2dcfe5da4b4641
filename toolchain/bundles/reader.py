"""Reads the bytes of a bundle in order and compares them with the layout."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

from toolchain.bundles import layout
from toolchain.errors import CheckError, UsageError
from toolchain.quantities import counted

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
            raise self.refused(f"it has {found} where {name} of {counted(size, 'byte')} is expected")
        return self.content(size)

    def end(self) -> None:
        block = self.take(layout.BLOCK)
        if found := layout.parse_header(block):
            raise self.refused(f"it has an unknown member {found}")
        rest = self.take(layout.BLOCK + -(self.position + layout.BLOCK) % layout.RECORD)
        if any(block) or any(rest):
            raise self.refused("bytes after its last member are not zero")
        if self.left:
            raise self.refused(f"{counted(self.left, 'byte follows', 'bytes follow')} its end")

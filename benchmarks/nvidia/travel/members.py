"""Reads a pack: refuses members that are not as they were written, and unpacks them."""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path
from typing import Any

from benchmarks.nvidia.travel.stop import Stop

VERSION = 1
_PIECE = 2**20
_MANIFEST_LIMIT = 16 * 2**20


class Pack:
    """A pack in a folder.

    Attributes
    ----------
    id
        The sha256 of its manifest.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        file = folder / "pack.json"
        try:
            with file.open("rb") as opened:
                text = opened.read(_MANIFEST_LIMIT)
            self.manifest: dict[str, Any] = json.loads(text)
            version = self.manifest["version"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Stop(f"{file} is no manifest of a pack: {error}") from error
        if version != VERSION:
            raise Stop(
                f"{file} has version {version}, and run.py reads version {VERSION}: copy the whole pack"
            )
        self.id = hashlib.sha256(text).hexdigest()

    def check(self) -> None:
        """Compare all members with their sums.

        Raises
        ------
        Stop
            A member is missing or was changed.
        """
        for name, sums in self.manifest["members"].items():
            file = self.folder / name
            if not file.is_file():
                raise Stop(f"{name} is missing in {self.folder}: copy the whole pack")
            if file.stat().st_size != sums["size"] or _digest(file) != sums["sha256"]:
                raise Stop(f"{name} is not what was packed: copy the pack again, or make a new one")

    def unpack(self, entry: dict[str, Any], to: Path) -> Path:
        """Write the contents of a compressed member to a file; return it.

        Raises
        ------
        Stop
            It does not unpack to what was packed.
        """
        digest, left = hashlib.sha256(), entry["size"]
        with lzma.open(self.folder / entry["member"], "rb") as packed, to.open("wb") as file:
            while left > 0:
                piece = packed.read(min(_PIECE, left))
                if not piece:
                    break
                left -= len(piece)
                digest.update(piece)
                file.write(piece)
            more = packed.read(1)
        if left or more or digest.hexdigest() != entry["sha256"]:
            raise Stop(f"{entry['member']} does not unpack to what was packed")
        return to


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        for piece in iter(lambda: opened.read(_PIECE), b""):
            digest.update(piece)
    return digest.hexdigest()

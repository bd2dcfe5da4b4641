"""Writes the members of a pack: compressed, with the sizes and digests of what they unpack to."""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path
from typing import Any

from toolchain.errors import UsageError
from toolchain.files.atomic import write_bytes

LIMIT = 64 * 2**20
"""Bytes that a machine with a GPU takes at once."""

_DICTIONARY = 2**26  # two of the largest layers, as winograd transforms them


class Members:
    """The members of a pack in a folder.

    Attributes
    ----------
    written
        Size and sha256 of each member, by its name.
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.written: dict[str, dict[str, Any]] = {}
        self._folder = folder
        self._limit = limit
        self._unpacked: dict[str, dict[str, Any]] = {}

    def add(self, name: str, data: bytes) -> str:
        """Write a member as it is; return its name.

        Raises
        ------
        UsageError
            The pack becomes larger than its limit.
        """
        self.written[name] = _sums(data)
        size = sum(each["size"] for each in self.written.values())
        if size > self._limit:
            raise UsageError(
                f"the pack is larger than {self._limit / 2**20:.0f} MiB with {name}",
                "pack fewer networks (--networks) or batches (--batch)",
            )
        (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(self._folder / name, data)
        return name

    def compress(self, name: str, data: bytes) -> dict[str, Any]:
        """Write a member by xz, unless it was before; return its name, and the sums of what it unpacks to.

        Raises
        ------
        ValueError
            The name was given to other data.
        """
        member = f"{name}.xz"
        sums = _sums(data)
        if self._unpacked.setdefault(member, sums) != sums:
            raise ValueError(f"two members of the pack are called {member}")
        if member not in self.written:
            self.add(member, _compressed(data))
        return {"member": member, **sums}


def _compressed(data: bytes) -> bytes:
    size = max(2**12, min(_DICTIONARY, len(data)))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": size}]
    return lzma.compress(data, lzma.FORMAT_XZ, filters=filters)


def _sums(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}

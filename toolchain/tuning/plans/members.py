"""The files of an exported folder, each named by the digest of its content: equal ones are there once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

FOLDER = "members"


@dataclass(frozen=True)
class Member:
    """The content of a file and its digest."""

    content: bytes = field(repr=False)
    digest: str

    @classmethod
    def of(cls, content: bytes) -> Member:
        """Return the member with this content."""
        return cls(content, sha256(content).hexdigest())


class Members:
    """Writes members to an exported folder until it is full.

    Parameters
    ----------
    root
        The exported folder.
    most
        Largest number of bytes of the whole folder.
    used
        Bytes of it that are in use already.
    """

    def __init__(self, root: Path, most: int, used: int) -> None:
        self._folder, self._most, self.used = root / FOLDER, most, used
        self.sizes: dict[str, int] = {}
        self._folder.mkdir()

    def path(self, digest: str) -> Path:
        """Return where a member is, or would be."""
        return self._folder / digest

    def missing(self, sizes: Mapping[str, int]) -> int:
        """Return how many bytes of members, whose sizes are given by their digests, are not there yet."""
        return sum(size for digest, size in sizes.items() if digest not in self.sizes)

    def add(self, members: Iterable[Member], beside: int) -> bool:
        """Write members that are not there yet, all or none; return whether they fit.

        Parameters
        ----------
        beside
            Bytes of other files that are needed with these members.
        """
        new = {member.digest: member for member in members if member.digest not in self.sizes}
        needed = beside + sum(len(member.content) for member in new.values())
        if self.used + needed > self._most:
            return False
        for digest, member in new.items():
            (self._folder / digest).write_bytes(member.content)
            self.sizes[digest] = len(member.content)
        self.used += needed
        return True

"""One row of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.field.attacks.scene import Scene


@dataclass(frozen=True)
class Passes:
    """An end that has no reason to refuse, and why."""

    because: str

    def __str__(self) -> str:
        """The cell of the table."""
        return f"accepted: {self.because}"


@dataclass(frozen=True)
class Attack:
    """An attack, with all ways to try it.

    Attributes
    ----------
    host
        Words of the error with which `toolchain release verify` ends.
    board
        Code of the cause that the installer names.
    """

    name: str
    scenes: Sequence[Scene]
    host: str | Passes
    board: str | Passes

    def __str__(self) -> str:
        """The row of the table."""
        host = self.host if isinstance(self.host, Passes) else f"“{self.host}”"
        board = self.board if isinstance(self.board, Passes) else f"`{self.board}`"
        ways = f" ({len(self.scenes)} ways)" if len(self.scenes) > 1 else ""
        return f"| {self.name}{ways} | {host} | {board} |"

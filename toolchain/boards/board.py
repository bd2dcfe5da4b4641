"""One device that networks run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from toolchain.boards.transport import Transport
from toolchain.errors import ToolchainError
from toolchain.profiles import Profile
from toolchain.targets.build_for import BuildFor


@dataclass(frozen=True)
class Board:
    """One device, and how to reach it.

    Attributes
    ----------
    shared_cpu
        It computes on this host's CPU, as others may at the same time: its timings are flagged.
    tracker_key
        Under which its servers register in the lab.
    record_class
        Under which its tuning records are kept: `<class>` or `<class>+emulated`.
    """

    name: str
    profile: Profile
    emulated: bool
    shared_cpu: bool
    transport: Transport
    tracker_key: str
    record_class: str

    @property
    def build_for(self) -> BuildFor:
        """What code for this board is made for."""
        return BuildFor(self.profile, self.name, self.emulated, self.record_class)


@contextmanager
def named(board: Board) -> Iterator[None]:
    """Put the board's name before errors that do not say where they happened."""
    try:
        yield
    except ToolchainError as error:
        if f"board {board.name}" in error.message:
            raise
        raise type(error)(f"board {board.name}: {error.message}", error.hint) from error

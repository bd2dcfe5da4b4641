"""A machine that runs networks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn, cast

from toolchain.boards.transport import LostError, Transport
from toolchain.configuration.labgrid import LabgridPlace
from toolchain.configuration.power import PowerCommands
from toolchain.errors import ToolchainError
from toolchain.profiles import Profile, load_profile
from toolchain.targets.build_for import BuildFor, RatesOf


@dataclass(frozen=True)
class Board:
    """A machine that runs networks, with its class and the transport that reaches it.

    Attributes
    ----------
    shared_cpu
        Whether other programs use the board's CPU at the same time because it is this host's; reports
        mark its timings.
    tracker_key
        Key under which its edge-rt servers register at the lab's tracker.
    record_class
        Board class of its tuning records: `<class>`, or `<class>+emulated` for an emulated board.
    only_device
        The one device of its kind that it computes on, as edge-rt counts them: `cuda:1`. Empty: all.
    rates
        Whose rates are in `profile`: those of the class, or what was measured on this board.
    power
        Commands that switch its power; None if the user named none.
    carrier
        Name of the carrier that brings releases to it (`rollouts/carriers.py`).
    place
        Its place at a labgrid coordinator, which commands acquire while they use it; None: it has none.
    """

    name: str
    profile: Profile
    emulated: bool
    shared_cpu: bool
    transport: Transport
    tracker_key: str
    record_class: str
    only_device: str = ""
    rates: RatesOf = "class"
    power: PowerCommands | None = None
    place: LabgridPlace | None = None
    carrier: str = "ssh"

    @property
    def build_for(self) -> BuildFor:
        """Return what code for this board is generated for."""
        return BuildFor(self.profile, self.name, self.emulated, self.record_class, self.rates)


@contextmanager
def named(board: Board) -> Iterator[None]:
    """Add the board's name to the front of each error that does not name it."""
    try:
        yield
    except ToolchainError as error:
        if f"board {board.name}" in error.message:
            raise
        raise type(error)(f"board {board.name}: {error.message}", error.hint) from error


# A board class in place of a board, for commands that measure with a model of its device.


class Nowhere:
    """The transport of a board that does not exist: every use of it raises LostError."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, _asked: str) -> NoReturn:
        raise LostError(
            f"{self._name} is a board class: there is no board to reach",
            f"add yours: `toolchain board add HOST --class {self._name}`",
        )


def class_alone(name: str) -> Board:
    """Return a board without a machine for a class; its records belong to the class."""
    return Board(
        name=name,
        profile=load_profile(name),
        emulated=False,
        shared_cpu=False,
        transport=cast(Transport, Nowhere(name)),
        tracker_key="",
        record_class=name,
    )

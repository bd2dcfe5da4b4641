"""A carrier brings releases to boards, or to a file or a registry from which others take them on.

A new one is a subclass of `Carrier`, named in `carriers.py` or by a plugin: docs/howto/add-a-carrier.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import ClassVar, Generic, Literal, TypeVar

from toolchain.boards.board import Board
from toolchain.errors import UsageError
from toolchain.events.rollouts import BoardDone, CarrierEvent
from toolchain.releases.export import Delivery
from toolchain.rollouts.fleet import BoardApp, PlannedInstall

Reach = Literal["boards", "a file", "an address"]
"""What a carrier brings releases to. Each has its command: `deploy`, `release export`, `release push`."""

Ability = Literal["phases", "preview", "status", "rollback"]

ABILITIES: Mapping[Ability, str] = {
    "phases": "go to boards phase by phase",
    "preview": "say beforehand what boards would get",
    "status": "ask boards what they run",
    "rollback": "take boards back",
}
"""What not every carrier can do, as words for messages."""

Events = Generator[CarrierEvent, None, None]
Place = TypeVar("Place")


@dataclass(frozen=True)
class FilePlace:
    """A file that a carrier writes, with the options of `release export`.

    Attributes
    ----------
    bundle_only
        Copy bundle and release as they are, to `path` and `path`.release.
    device_types
        What the file's engine calls the boards that may install it; empty: the release's classes.
    """

    path: Path
    bundle_only: bool = False
    device_types: tuple[str, ...] = ()


class Carrier(ABC, Generic[Place]):
    """A way on which releases travel.

    `Place` is what `send` sends to: a `Course` (boards with the rules of their rollout), a `FilePlace`, or an
    address of the carrier's own form.

    Attributes
    ----------
    name
        Name in `toolchain.toml`, in options and in messages.
    reaches
        What it brings releases to.
    can
        What else it can do; the methods of what it cannot refuse, naming it.
    options
        Options of `release export` that it takes, such as `device-type`.
    """

    name: ClassVar[str]
    reaches: ClassVar[Reach]
    can: ClassVar[frozenset[Ability]] = frozenset()
    options: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def send(self, delivery: Delivery, place: Place, stop: Event) -> Events:
        """Bring a release to a place; yield events as they happen, each before what follows from it.

        A carrier that reaches boards yields `RolloutBegan` or, if the course says so, `RolloutResumed` first,
        a `BoardDone` for each board, and `RolloutEnded` last; another one `ReleaseStored` for each file or
        manifest. `close` of the generator ends it at once.

        Parameters
        ----------
        stop
            Set to end a rollout gently: no board begins any more.

        Raises
        ------
        ToolchainError
            The release did not get there, and no event says why.
        """

    def address(self, text: str) -> Place:
        """Return the place that a user named, for a carrier that reaches an address.

        Raises
        ------
        UsageError
            The carrier reaches no addresses, or it is none of its own.
        """
        raise self._reaches_other("an address", text)

    def prepare(self, boards: Iterable[Board], progress: Callable[[str], None]) -> None:
        """Get ready what boards need, before many threads want it."""

    def preview(self, delivery: Delivery, boards: Sequence[Board], at_once: int) -> list[PlannedInstall]:
        """Return what each board would get, and change none."""
        del delivery, boards, at_once
        raise self.cannot("preview")

    def status(self, boards: Sequence[Board], at_once: int) -> list[BoardApp]:
        """Return what boards run, in their order."""
        del boards, at_once
        raise self.cannot("status")

    def roll_back(
        self, boards: Sequence[Board], app: str | None, at_once: int
    ) -> Generator[BoardDone, None, None]:
        """Take boards back to the release before; yield their outcomes as they end.

        Parameters
        ----------
        app
            The application; None if boards have one only.
        """
        del boards, app, at_once
        raise self.cannot("rollback")

    def need(self, ability: Ability) -> None:
        """Refuse what the carrier cannot do.

        Raises
        ------
        UsageError
            It cannot.
        """
        if ability not in self.can:
            raise self.cannot(ability)

    def need_reach(self, reach: Reach, what: str) -> None:
        """Refuse `what` the user named if the carrier brings releases elsewhere; errors as of `need`."""
        if self.reaches != reach:
            raise self._reaches_other(reach, what)

    def need_options(self, given: Iterable[str]) -> None:
        """Refuse options of `release export` that the carrier does not take; errors as of `need`."""
        if odd := next((option for option in given if option not in self.options), None):
            own = ", ".join(f"--{option}" for option in sorted(self.options)) or "no option of its own"
            raise UsageError(
                f"--format {self.name} cannot be combined with --{odd}", f"leave it out; it takes {own}"
            )

    def cannot(self, ability: Ability) -> UsageError:
        """Return the refusal of what the carrier cannot do."""
        able = ", ".join(sorted(self.can)) or "nothing but to send"
        return UsageError(
            f"carrier {self.name} cannot {ABILITIES[ability]}",
            f"use its own tools for that; what it can: {able}; the default carrier, ssh, can all",
        )

    def _reaches_other(self, reach: Reach, what: str) -> UsageError:
        commands = {"boards": "deploy", "a file": "release export", "an address": "release push"}
        return UsageError(
            f"{what}: carrier {self.name} brings releases to {self.reaches}, not to {reach}",
            f"`toolchain {commands[self.reaches]}` uses it",
        )

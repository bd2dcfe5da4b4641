"""The interface of a tuner, which proposes the points of a space to measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Generic, Protocol

from toolchain.devices.failure import Failure
from toolchain.tasks.candidate import Entry
from toolchain.tasks.space import P


@dataclass(frozen=True)
class Result:
    """The result of measuring one candidate: its times, or its failure.

    Attributes
    ----------
    run_ms
        Milliseconds of one call, one value for each repeat; empty after a failure.
    failure, message
        Kind and description of the failure; None and empty if there was none.
    board
        Name of the board that measured; empty if none did.
    governor, temperature_c
        Frequency governor and temperature of the board's CPU just before the measurement; None if unreadable.
    conditions
        How the device was just after the measurement, as JSON; None where nothing is known.
    modelled
        The time was computed by a model of the device, not measured with a clock.
    """

    run_ms: tuple[float, ...] = ()
    failure: Failure | None = None
    message: str = ""
    board: str = ""
    governor: str | None = None
    temperature_c: float | None = None
    conditions: str | None = None
    modelled: bool = False

    @property
    def mean_ms(self) -> float:
        """Mean time over the repeats, in ms."""
        return fmean(self.run_ms)


class Tuner(Protocol[P]):
    """Searches one space. It never proposes a point twice, nor a point whose result it has learned.

    It may be asked for more points while earlier proposals are still being measured.

    Attributes
    ----------
    transfers
        Whether it uses `transfer`. If not, results of other tasks need not be read from the store.
    """

    @property
    def transfers(self) -> bool: ...

    def propose(self, count: int) -> list[P]:
        """Return at most `count` points to measure next; an empty list if the space is exhausted.

        Raises
        ------
        ToolchainError
            The search failed.
        """

    def learn(self, measured: Sequence[tuple[P, Result]]) -> None:
        """Learn from results, in any order: of its proposals or, before the first one, of earlier runs.

        Failures are included, since they say which points to avoid.
        """

    def transfer(self, experience: Experience[P]) -> None:
        """Learn from results of other tasks, before the first proposal; a tuner may ignore them."""

    def close(self) -> None:
        """Release the memory and processes of the search."""


@dataclass(frozen=True)
class Foreign:
    """A measured point of another task or target of the same backend, as it is stored.

    Attributes
    ----------
    definition
        Definition of the task that it was measured for.
    """

    entry: Entry
    definition: str
    result: Result


@dataclass(frozen=True)
class Experience(Generic[P]):
    """Knowledge about one space, derived from points of other tasks.

    Attributes
    ----------
    lessons
        Features and results of points, in groups of one task on one target: times are comparable only within
        a group.
    points
        Points of this space that are most similar to the best points of others, the most similar task first.
    """

    lessons: Sequence[Sequence[tuple[Sequence[float], Result]]] = field(default=())
    points: Sequence[P] = field(default=())

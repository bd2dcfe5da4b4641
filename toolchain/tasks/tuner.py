"""The interface of a tuner, which proposes the points of a space to measure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log2
from random import Random
from statistics import fmean
from typing import Generic, Protocol, TypeVar

from toolchain.devices.kind import Failure
from toolchain.errors import ToolchainError
from toolchain.records.store import Usable
from toolchain.tasks.candidate import Candidate, Entry

# The interface of a space: all ways in which a backend can compute one task.

P = TypeVar("P", bound=Hashable)
"""Type of a backend's points. A point is one way to compute a task: plain data, comparable and hashable."""


class Space(Protocol[P]):
    """All ways to compute one task; a tuner needs nothing else of a task.

    Attributes
    ----------
    kinds
        Kinds of the entries that this space can read.
    excluded
        Name of what the user's options exclude from the space; empty if they exclude nothing.
    usable
        Whether a build with these options can use a record of these kinds.
    allowed
        Whether a record of these kinds may be measured again in this space, even if it was written by a run
        with other exclusions.
    """

    kinds: tuple[str, ...]
    excluded: str
    usable: Usable
    allowed: Usable

    @property
    def size(self) -> int | None:
        """Number of points; None if they cannot be counted, and thus have no order."""

    def default(self) -> P:
        """Return the point that a build uses without a record."""

    def legal(self, point: P) -> bool:
        """Whether a point computes this task correctly on this target."""

    def check(self, point: P) -> None:
        """Check that a point from the store computes this task.

        Raises
        ------
        ToolchainError
            It does not; the message says why.
        """

    def point(self, index: int) -> P:
        """Return the point at an index in [0, `size`): the default first, then the most promising ones.

        Raises
        ------
        UsageError
            The points have no order.
        """

    def index(self, point: P) -> int:
        """Return the index of a point.

        Raises
        ------
        UsageError
            The points have no order.
        """

    def sample(self, random: Random) -> P:
        """Draw a legal point."""

    def neighbours(self, point: P, random: Random) -> list[P]:
        """Return legal points that differ from `point` in one decision; a sample if they are too many."""

    def features(self, point: P) -> Sequence[float]:
        """Return the features from which a cost model predicts times, equally many for each point."""

    def foreign_features(self, entry: Entry, definition: str) -> Sequence[float]:
        """Return the features of a point of another task or target, comparable with those of this space.

        They describe the task, too, so that a model can learn from one task about another.

        Raises
        ------
        ToolchainError
            The backend cannot interpret the entry.
        """

    def adapted(self, entry: Entry, definition: str) -> P | None:
        """Return the legal point most similar to a point of another task; None if none is similar.

        Raises
        ------
        ToolchainError
            The backend cannot interpret the entry.
        """

    def rule(self, point: P) -> str:
        """Return the name, for users, of the algorithm or schedule of a point, such as `winograd`."""

    def entry(self, point: P) -> Entry:
        """Return a point in the form that the store keeps."""

    def read(self, entry: Entry, definition: str) -> P:
        """Parse an entry and return its point. This is fast; `check` does the expensive tests.

        Parameters
        ----------
        definition
            Definition of the task that it was measured for; that task has the same workload as this one.

        Raises
        ------
        ToolchainError
            The entry is not a point of this space: another version wrote it, or it is damaged.
        """

    def candidate(self, point: P) -> Candidate:
        """Return the candidate of a point, which can be compiled and measured.

        Raises
        ------
        ToolchainError
            The point does not apply to the task. If only compiling shows that, compiling raises the error.
        """


# The base class of spaces whose points can be listed.

Decisions = Mapping[str, Hashable]


class FiniteSpace(ABC, Generic[P]):
    """The methods of a `Space` that follow from the list of its points."""

    @property
    @abstractmethod
    def points(self) -> Sequence[P]:
        """All points: the default, then the others, the most promising first."""

    @abstractmethod
    def decisions(self, point: P) -> Decisions:
        """Return the values that define a point, by name; all points have the same names."""

    @abstractmethod
    def legal(self, point: P) -> bool:
        """Whether a point computes the task correctly on this target."""

    def check(self, point: P) -> None:
        """Raise a ToolchainError if a point does not compute the task."""
        if not self.legal(point):
            raise ToolchainError(
                f"{point} is no way to compute this task", "tune the task again with --fresh"
            )

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.points)

    def default(self) -> P:
        """Return the first point, which a build uses without records."""
        return self.points[0]

    def point(self, index: int) -> P:
        """Return the point at an index."""
        return self.points[index]

    def index(self, point: P) -> int:
        """Return the index of a point."""
        return self._places[self._decided(self.decisions(point))]

    def sample(self, random: Random) -> P:
        """Draw a point."""
        return random.choice(self.points)

    def neighbours(self, point: P, random: Random) -> list[P]:
        """Return the points that differ from `point` in exactly one decision, in random order."""
        own = self.decisions(point)
        changed = [
            self.decided({**own, name: other})
            for name, others in self.domains.items()
            for other in others
            if other != own[name]
        ]
        near = [other for other in changed if other is not None]
        random.shuffle(near)
        return near

    def decided(self, decisions: Decisions) -> P | None:
        """Return the point with exactly these decisions; None if the space has no such point."""
        place = self._places.get(self._decided(decisions))
        return None if place is None else self.points[place]

    def nearest(self, decisions: Decisions) -> P:
        """Return the point with the smallest distance to decisions, which may come from another space.

        The distance is a sum over the decisions: 0 for equal values, |log2(ratio)| for two positive numbers,
        2 for all others.
        """
        exact = self.decided(decisions) if decisions.keys() >= self.domains.keys() else None
        return exact or min(self.points, key=lambda point: self._distance(self.decisions(point), decisions))

    @staticmethod
    def _distance(own: Decisions, others: Decisions) -> float:
        return sum(_apart(decision, others.get(name)) for name, decision in own.items())

    @cached_property
    def domains(self) -> Mapping[str, Sequence[Hashable]]:
        """All values of each decision, by its name, in the order in which the points have them."""
        columns: dict[str, dict[Hashable, None]] = {}
        for point in self.points:
            for name, decision in self.decisions(point).items():
                columns.setdefault(name, {})[decision] = None
        return {name: list(column) for name, column in columns.items()}

    @cached_property
    def _places(self) -> Mapping[tuple[Hashable, ...], int]:
        """Index of each point by its decisions, so that spaces of 10^5 points are searched only once."""
        return {self._decided(self.decisions(point)): place for place, point in enumerate(self.points)}

    def _decided(self, decisions: Decisions) -> tuple[Hashable, ...]:
        return tuple(decisions[name] for name in self.domains)


def _apart(one: Hashable, other: Hashable) -> float:
    if one == other:
        return 0.0
    if isinstance(one, int | float) and isinstance(other, int | float) and min(one, other) > 0:
        return abs(log2(one / other))
    return 2.0


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

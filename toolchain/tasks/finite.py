"""The base class of spaces whose points can be listed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from math import log2
from random import Random
from typing import Generic

from toolchain.errors import ToolchainError
from toolchain.tasks.space import P

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

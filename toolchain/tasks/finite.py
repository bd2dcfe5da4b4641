"""Spaces whose points can be listed."""

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
    """The half of a `Space` that follows from the list of its points."""

    @property
    @abstractmethod
    def points(self) -> Sequence[P]:
        """All points: the default, then in the order of their promise."""

    @abstractmethod
    def decisions(self, point: P) -> Decisions:
        """Return what makes up a point, by name: the names are the same for all points."""

    @abstractmethod
    def legal(self, point: P) -> bool:
        """Whether a point computes the task."""

    def check(self, point: P) -> None:
        """Refuse a point that does not compute the task."""
        if not self.legal(point):
            raise ToolchainError(
                f"{point} is no way to compute this task", "tune the task again with --fresh"
            )

    @property
    def size(self) -> int:
        """How many points there are."""
        return len(self.points)

    def default(self) -> P:
        """Return the first point."""
        return self.points[0]

    def point(self, index: int) -> P:
        """Return the point of a place."""
        return self.points[index]

    def index(self, point: P) -> int:
        """Return the place of a point."""
        return self._places[self._decided(self.decisions(point))]

    def sample(self, random: Random) -> P:
        """Draw a point."""
        return random.choice(self.points)

    def neighbours(self, point: P, random: Random) -> list[P]:
        """Return the points that differ from one in a single decision, in any order."""
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
        """Return the point that is made up of these decisions; None: there is none."""
        place = self._places.get(self._decided(decisions))
        return None if place is None else self.points[place]

    def nearest(self, decisions: Decisions) -> P:
        """Return the point whose decisions are most like these, which may be of another space.

        Numbers are as far apart as their ratio's logarithm to base 2; what is no number, 2.
        """
        exact = self.decided(decisions) if decisions.keys() >= self.domains.keys() else None
        return exact or min(self.points, key=lambda point: self._distance(self.decisions(point), decisions))

    @staticmethod
    def _distance(own: Decisions, others: Decisions) -> float:
        return sum(_apart(decision, others.get(name)) for name, decision in own.items())

    @cached_property
    def domains(self) -> Mapping[str, Sequence[Hashable]]:
        """What is decided, by name: all that some point has, in the order of the points."""
        columns: dict[str, dict[Hashable, None]] = {}
        for point in self.points:
            for name, decision in self.decisions(point).items():
                columns.setdefault(name, {})[decision] = None
        return {name: list(column) for name, column in columns.items()}

    @cached_property
    def _places(self) -> Mapping[tuple[Hashable, ...], int]:
        """Place of a point by its decisions: spaces of 10^5 points are not gone through each time."""
        return {self._decided(self.decisions(point)): place for place, point in enumerate(self.points)}

    def _decided(self, decisions: Decisions) -> tuple[Hashable, ...]:
        return tuple(decisions[name] for name in self.domains)


def _apart(one: Hashable, other: Hashable) -> float:
    if one == other:
        return 0.0
    if isinstance(one, int | float) and isinstance(other, int | float) and min(one, other) > 0:
        return abs(log2(one / other))
    return 2.0

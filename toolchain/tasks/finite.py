"""Spaces whose points can be listed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from typing import Generic, TypeVar

from toolchain.errors import ToolchainError

P = TypeVar("P")


class FiniteSpace(ABC, Generic[P]):
    """The half of a `Space` that follows from the list of its points."""

    @property
    @abstractmethod
    def points(self) -> Sequence[P]:
        """All points: the default, then in the order of their promise."""

    @abstractmethod
    def decisions(self, point: P) -> Mapping[str, object]:
        """Return what makes up a point, by name; each has the same names."""

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
        return self.points.index(point)

    def sample(self, random: Random) -> P:
        """Draw a point."""
        return random.choice(self.points)

    def neighbours(self, point: P, random: Random) -> list[P]:
        """Return the points that differ from one in a single decision, in any order."""
        own = self.decisions(point)
        near = [
            other
            for other in self.points
            if sum(own[name] != value for name, value in self.decisions(other).items()) == 1
        ]
        random.shuffle(near)
        return near

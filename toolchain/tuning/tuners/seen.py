"""The base class of tuners, which remembers the known points and their times."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Generic

from toolchain.records.record import PASSING_FAILURES
from toolchain.tasks.tuner import Experience, P, Result


class Seen(Generic[P]):
    """Base of tuners that never propose a point twice, nor one that they learned.

    Attributes
    ----------
    seen
        Points that were proposed or learned.
    seeds
        Points to propose first: those similar to the best of other tasks.
    times
        Times of the learned points in ms; infinite if the candidate failed. Failures that the machines caused
        are ignored.
    """

    transfers = False

    def __init__(self) -> None:
        self.seen: set[P] = set()
        self.times: dict[P, float] = {}
        self.seeds: list[P] = []

    def learn(self, measured: Sequence[tuple[P, Result]]) -> None:
        """Store the times of points."""
        for point, result in measured:
            self.seen.add(point)
            if result.failure not in PASSING_FAILURES:
                self.times[point] = inf if result.failure else result.mean_ms

    def take_seeds(self, count: int) -> list[P]:
        """Remove and return at most `count` of `seeds` that were not seen, and mark them as seen."""
        points = [point for point in self.seeds if point not in self.seen][:count]
        self.seeds = [point for point in self.seeds if point not in points]
        self.seen.update(points)
        return points

    def transfer(self, experience: Experience[P]) -> None:
        """Ignore the experience."""

    def close(self) -> None:
        """Do nothing, since there is nothing to release."""

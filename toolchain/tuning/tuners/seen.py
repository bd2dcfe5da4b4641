"""What a search knows: which points need no second measurement, and how long they took."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Generic

from toolchain.records.record import PASSING_FAILURES
from toolchain.tasks.space import P
from toolchain.tasks.tuner import Experience, Result


class Seen(Generic[P]):
    """Base of tuners: a point that was proposed or learned is not proposed again.

    Results may come in any order, and while others are still being measured.

    Attributes
    ----------
    seen
        Points that were proposed or learned.
    seeds
        Points to propose first: those like the best of other tasks, say.
    times
        Milliseconds of the points that were learned; infinite where the candidate failed. What failed by the
        machines' fault says nothing of the candidate, and is left out.
    """

    transfers = False

    def __init__(self) -> None:
        self.seen: set[P] = set()
        self.times: dict[P, float] = {}
        self.seeds: list[P] = []

    def learn(self, measured: Sequence[tuple[P, Result]]) -> None:
        """Take note of how long points took."""
        for point, result in measured:
            self.seen.add(point)
            if result.failure not in PASSING_FAILURES:
                self.times[point] = inf if result.failure else result.mean_ms

    def sown(self, count: int) -> list[P]:
        """Return at most `count` seeds that were not seen; from now on they are."""
        points = [point for point in self.seeds if point not in self.seen][:count]
        self.seeds = [point for point in self.seeds if point not in points]
        self.seen.update(points)
        return points

    def transfer(self, experience: Experience[P]) -> None:
        """Ignore it."""

    def close(self) -> None:
        """Do nothing: nothing is held."""

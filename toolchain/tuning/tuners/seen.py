"""What a search knows: which points need no second measurement, and how long they took."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from toolchain.records.record import PASSING_FAILURES
from toolchain.tasks.space import Point
from toolchain.tasks.tuner import Experience, Result


class Seen:
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
        self.seen: set[Point] = set()
        self.times: dict[Point, float] = {}
        self.seeds: list[Point] = []

    def learn(self, measured: Sequence[tuple[Point, Result]]) -> None:
        """Take note of how long points took."""
        for point, result in measured:
            self.seen.add(point)
            if result.failure not in PASSING_FAILURES:
                self.times[point] = inf if result.failure else result.mean_ms

    def sown(self, count: int) -> list[Point]:
        """Return at most `count` seeds that were not seen; from now on they are."""
        points = [point for point in self.seeds if point not in self.seen][:count]
        self.seeds = [point for point in self.seeds if point not in points]
        self.seen.update(points)
        return points

    def transfer(self, experience: Experience) -> None:
        """Ignore it."""

    def close(self) -> None:
        """Do nothing: nothing is held."""

"""A genetic tuner: it breeds points from pairs of good ones.

It suits spaces with thousands of points whose decisions hardly depend on one another; it needs no model. A
child takes each decision from one of two parents; then a mutation may change one decision.
"""

from __future__ import annotations

from heapq import nsmallest

from toolchain.tasks.space import P, Space
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Experience
from toolchain.tuning.tuners.draw import chance, drawn
from toolchain.tuning.tuners.fitting import with_decisions
from toolchain.tuning.tuners.seen import Seen

_POPULATION = 16  # the best points: parents of what is proposed next
_FIRST = 16  # number of results before the first children
_MUTATION = 0.3
_IN_VAIN = 64  # invalid or known children after which random points are drawn


class Genetic(Seen[P]):
    """Breeds points from the best ones learned so far; see `tasks.tuner.Tuner`."""

    transfers = True

    def __init__(self, task: Task, space: Space[P], seed: int) -> None:
        super().__init__()
        self._space = with_decisions("ga", task, space)
        self._all = space
        self._random = chance(seed, task.workload)

    def transfer(self, experience: Experience[P]) -> None:
        """Propose first the points that are similar to the best of other tasks."""
        self.seeds = list(experience.points[: _FIRST // 2])

    def propose(self, count: int) -> list[P]:
        """Return children of the best points; random points as long as too few results are known."""
        points = self.take_seeds(count)
        if len(self.times) >= _FIRST:
            population = nsmallest(_POPULATION, self.times, key=lambda point: self.times[point])
            in_vain = 0
            while len(points) < count and in_vain < _IN_VAIN:
                child = self._child(population)
                if child is None or child in self.seen:
                    in_vain += 1
                    continue
                points.append(child)
                self.seen.add(child)
        points += drawn(self._all, self.seen, count - len(points), self._random)
        self.seen.update(points)
        return points

    def _child(self, population: list[P]) -> P | None:
        one, other = (self._space.decisions(self._parent(population)) for _ in range(2))
        child = self._space.decided({name: self._random.choice((one[name], other[name])) for name in one})
        if child is not None and (child in self.seen or self._random.random() < _MUTATION):
            near = self._space.neighbours(child, self._random)
            return near[0] if near else None
        return child

    def _parent(self, population: list[P]) -> P:
        """Return the better of two random points; the population is sorted."""
        return population[min(self._random.randrange(len(population)) for _ in range(2))]

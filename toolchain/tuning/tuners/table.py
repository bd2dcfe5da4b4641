"""The tuners by name."""

from __future__ import annotations

from difflib import get_close_matches
from heapq import nsmallest
from itertools import count
from typing import Any

from toolchain.errors import UsageError
from toolchain.tasks.backend import MakeTuner, Network
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Experience, P, Space, Tuner
from toolchain.tuning.tuners.draw import chance, drawn
from toolchain.tuning.tuners.fitting import counted, with_decisions
from toolchain.tuning.tuners.seen import Seen
from toolchain.tuning.tuners.xgb import boosted

# A genetic tuner: it breeds points from pairs of good ones.
#
# It suits spaces with thousands of points whose decisions hardly depend on one another; it needs no model.
# A child takes each decision from one of two parents; then a mutation may change one decision.

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


# A tuner that tries all points in the order of the space, for small or well-ordered spaces.


class GridSearch(Seen[P]):
    """Proposes all points of a space from the first to the last; see `tasks.tuner.Tuner`.

    Raises
    ------
    UsageError
        The points cannot be counted.
    """

    def __init__(self, task: Task, space: Space[P], seed: int) -> None:
        super().__init__()
        del seed  # the search is deterministic
        self._space, self._size, self._next = space, counted("gridsearch", task, space), count()

    def propose(self, count: int) -> list[P]:
        """Return the next points that are not known yet."""
        points: list[P] = []
        while len(points) < count and (index := next(self._next)) < self._size:
            point = self._space.point(index)
            if point not in self.seen:
                points.append(point)
                self.seen.add(point)
        return points


# A tuner that draws random points: the baseline of all other tuners.


class RandomSearch(Seen[P]):
    """Draws the remaining points with equal probability; see `tasks.tuner.Tuner`.

    It is for comparisons and unknown spaces, and learns nothing.
    """

    def __init__(self, task: Task, space: Space[P], seed: int) -> None:
        super().__init__()
        self._space = space
        self._random = chance(seed, task.workload)

    def propose(self, count: int) -> list[P]:
        """Return random points that are not known yet."""
        points = drawn(self._space, self.seen, count, self._random)
        self.seen.update(points)
        return points


TUNERS: dict[str, MakeTuner[Any]] = {
    "xgb": boosted("xgb"),
    "xgb-rank": boosted("xgb-rank"),
    "xgb-knob": boosted("xgb-knob"),
    "ga": Genetic,
    "random": RandomSearch,
    "gridsearch": GridSearch,
}
"""Tuners for any space; a backend may have more for its own spaces."""


def tuner_named(network: Network[P], name: str | None) -> MakeTuner[P]:
    """Return the function that makes the tuner of a task.

    Parameters
    ----------
    name
        Name of the tuner; None: the default of the network's backend.

    Raises
    ------
    UsageError
        No tuner has this name.
    """
    known: dict[str, MakeTuner[P]] = {**TUNERS, **network.tuners}
    wanted = name or network.tuner
    if wanted not in known:
        close = get_close_matches(wanted, known, n=1)
        names = ", ".join([*close, *(other for other in known if other not in close)])
        raise UsageError(
            f"--tuner {wanted}: no tuner of this name searches this code", f"use one of: {names}"
        )
    return known[wanted]


def tuner_for(network: Network[P], task: Task, space: Space[P], name: str | None, seed: int) -> Tuner[P]:
    """Return a tuner for a task; see `tuner_named`.

    Raises
    ------
    UsageError
        No tuner has this name, or it cannot search the space.
    """
    return tuner_named(network, name)(task, space, seed)

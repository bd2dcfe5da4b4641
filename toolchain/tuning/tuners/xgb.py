"""Boosted trees guess how good points are, and the most promising are measured next.

`xgb`
    Trees over the space's own features; they guess a point's share of the best speed. For any space whose
    features say what the code does: the first to try where gridsearch takes too long.
`xgb-rank`
    The same, but trained to tell which of two points is the faster. Where times lie far apart or many
    candidates fail, so that shares of the best speed say little.
`xgb-knob`
    Trees over the space's decisions, which need names. Where the features say little of a point, or are slow
    to get: tile sizes and threads, say. If all are numbers, the trees begin from a trend (`trend.py`), which
    also sees in which order the space has its points. With names among them it misleads: a number then means
    another thing with each name.

A batch is chosen epsilon-greedy: nearly all by the models, one in twenty by chance. They rank a space that
can be gone through as a whole; in others simulated annealing starts from the best points and samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import nsmallest
from math import inf
from typing import Any, Literal

import numpy as np

from toolchain.tasks.backend import MakeTuner
from toolchain.tasks.space import P, Space
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Experience
from toolchain.tuning.tuners.annealing import anneal
from toolchain.tuning.tuners.boosted import Committee, Lesson, Objective, favourites, scores
from toolchain.tuning.tuners.draw import chance, drawn
from toolchain.tuning.tuners.fitting import with_decisions
from toolchain.tuning.tuners.knobs import Knobs
from toolchain.tuning.tuners.seen import Seen
from toolchain.tuning.tuners.trend import Floats

Features = Callable[[P], Sequence[float]]

_BY_CHANCE = 0.05  # AutoTVM's epsilon
_WHOLE = 1 << 16  # points of a space that is ranked as a whole
_CHAINS = 64
# Neighbours and features of TensorIR's schedules take 0.1 s each, those of listed points microseconds.
_UNCOUNTED_CHAINS = 16
_STEPS = 32
_UNCOUNTED_STEPS = 2
_ENOUGH = 4  # results before a model is trained that knows of no other task
_SEEDS = 4
_OWN = 4  # a result of the task's own counts as much as so many of others


class BoostedSearch(Seen[P]):
    """Proposes what boosted trees promise most of; see `tasks.tuner.Tuner`.

    Parameters
    ----------
    features
        What the trees are told of a point; None: the space's own features, those of other tasks too.
    leaning
        As `Committee` has it.
    """

    transfers = True

    def __init__(
        self,
        task: Task,
        space: Space[P],
        seed: int,
        objective: Objective,
        features: Features[P] | None = None,
        *,
        leaning: bool = False,
    ) -> None:
        super().__init__()
        self._shared = features is None  # the features of the space are: those of other tasks are alike
        self._space = space
        self._random = chance(seed, task.workload)
        self._features = features or space.features
        self._models = Committee(objective, seed, leaning=leaning)
        self._others: list[Lesson] = []
        self._rows: dict[P, Floats] = {}
        self._taught = 0

    def transfer(self, experience: Experience[P]) -> None:
        """Teach the models what other tasks have shown; begin with points like the best of them, too."""
        if self._shared:
            self._others = [
                Lesson(
                    np.asarray([features for features, _result in lesson], np.float32),
                    scores([inf if result.failure else result.mean_ms for _features, result in lesson]),
                )
                for lesson in experience.lessons
            ]
        self.seeds = list(experience.points[:_SEEDS])

    def propose(self, count: int) -> list[P]:
        """Return the points that the models promise most of, and some by chance."""
        points = self.sown(count)
        if self._train():
            left = count - len(points)
            by_model = sum(self._random.random() >= _BY_CHANCE for _ in range(left))
            pool = self._pool()
            if pool:
                points += [pool[place] for place in favourites(self._guess(pool), by_model)]
            self.seen.update(points)
        points += drawn(self._space, self.seen, count - len(points), self._random)
        self.seen.update(points)
        return points

    def _train(self) -> bool:
        """Teach the models what is new; return whether there are any."""
        known = len(self.times)
        if known != self._taught and (known >= _ENOUGH or self._others):
            self._taught = known
            own = Lesson(self._matrix(list(self.times)), scores(list(self.times.values())))
            self._models.train([*self._others, *[own] * _OWN] if self._others else [own])
        return self._models.trained

    def _pool(self) -> list[P]:
        """Return the points that the models choose from."""
        size = self._space.size
        if size is not None and size <= _WHOLE:
            return [point for point in map(self._space.point, range(size)) if point not in self.seen]
        chains, steps = (_CHAINS, _STEPS) if size is not None else (_UNCOUNTED_CHAINS, _UNCOUNTED_STEPS)
        best = nsmallest(chains // 2, self.times, key=lambda point: self.times[point])
        starts = [*best, *drawn(self._space, self.seen, chains - len(best), self._random)]
        met = anneal(self._space, self._mean, starts, steps, self._random)
        return [point for point in met if point not in self.seen]

    def _mean(self, points: Sequence[P]) -> list[float]:
        return [float(guess) for guess in self._guess(points).mean(axis=0)]

    def _guess(self, points: Sequence[P]) -> Floats:
        return self._models.guess(self._matrix(points))

    def _matrix(self, points: Sequence[P]) -> Floats:
        for point in points:
            if point not in self._rows:
                self._rows[point] = np.asarray(self._features(point), np.float32)
        return np.stack([self._rows[point] for point in points])


def boosted(name: Literal["xgb", "xgb-rank", "xgb-knob"]) -> MakeTuner[Any]:
    """Return what makes the search of a name."""
    return partial(_made, name)


def _made(name: str, task: Task, space: Space[P], seed: int) -> BoostedSearch[P]:
    if name == "xgb-knob":
        knobs = Knobs(with_decisions(name, task, space))
        leaning = knobs.are_numbers
        features = knobs.promising if leaning else knobs.features
        return BoostedSearch(task, space, seed, "reg:squarederror", features, leaning=leaning)
    objective: Objective = "rank:pairwise" if name == "xgb-rank" else "reg:squarederror"
    return BoostedSearch(task, space, seed, objective)

"""Tuners with a cost model of boosted trees, which measure the points with the best predictions next.

`xgb`
    Trees over the space's own features predict the ratio of the best time to a point's time. For any space
    whose features describe the code: the first to try if gridsearch takes too long.
`xgb-rank`
    The same, but trained to predict which of two points is faster. For times that differ by orders of
    magnitude, or if many candidates fail, when ratios to the best time say little.
`xgb-knob`
    Trees over the space's named decisions. For spaces whose features describe points badly or are slow to
    compute: tile sizes and numbers of threads, for example. If all decisions are numbers, the trees predict
    the residuals of a trend (`trend.py`), which also uses the order of the points. If some are names, there
    is no trend, since a number may mean something else with each name.

A batch is chosen epsilon-greedy: 19 of 20 points by the models, the others at random. The models rank all
points of a space that can be listed; in others, simulated annealing starts from the best points and samples.
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
from toolchain.tuning.tuners.knobs import KnobFeatures
from toolchain.tuning.tuners.seen import Seen
from toolchain.tuning.tuners.trend import Floats

Features = Callable[[P], Sequence[float]]

_BY_CHANCE = 0.05  # AutoTVM's epsilon
_WHOLE = 1 << 16  # largest space in which all points are ranked
_CHAINS = 64
# Neighbours and features of TensorIR's schedules take 0.1 s each, those of finite spaces microseconds.
_UNCOUNTED_CHAINS = 16
_STEPS = 32
_UNCOUNTED_STEPS = 2
_ENOUGH = 4  # least number of results to train a model that has no lessons of other tasks
_SEEDS = 4
_OWN = 4  # weight of the task's own results, against those of other tasks


class BoostedSearch(Seen[P]):
    """Proposes the points with the best predictions of boosted trees; see `tasks.tuner.Tuner`.

    Parameters
    ----------
    features
        Returns the features of a point. None: the space's own features, with which the trees also learn from
        other tasks.
    leaning
        Whether the trees predict the residuals of a linear trend; see `Committee`.
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
        self._shared = features is None  # the space's own features are comparable between tasks
        self._space = space
        self._random = chance(seed, task.workload)
        self._features = features or space.features
        self._models = Committee(objective, seed, leaning=leaning)
        self._others: list[Lesson] = []
        self._rows: dict[P, Floats] = {}
        self._taught = 0

    def transfer(self, experience: Experience[P]) -> None:
        """Train the models on other tasks, too, and propose first the points similar to their best."""
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
        """Return the points with the best predictions, and some random ones."""
        points = self.take_seeds(count)
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
        """Train the models if there are new results; return whether they are trained."""
        known = len(self.times)
        if known != self._taught and (known >= _ENOUGH or self._others):
            self._taught = known
            own = Lesson(self._matrix(list(self.times)), scores(list(self.times.values())))
            self._models.train([*self._others, *[own] * _OWN] if self._others else [own])
        return self._models.trained

    def _pool(self) -> list[P]:
        """Return the points among which the models choose."""
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
    """Return the function that makes the tuner of a name."""
    return partial(_made, name)


def _made(name: str, task: Task, space: Space[P], seed: int) -> BoostedSearch[P]:
    if name == "xgb-knob":
        knobs = KnobFeatures(with_decisions(name, task, space))
        leaning = knobs.are_numbers
        features = knobs.promising if leaning else knobs.features
        return BoostedSearch(task, space, seed, "reg:squarederror", features, leaning=leaning)
    objective: Objective = "rank:pairwise" if name == "xgb-rank" else "reg:squarederror"
    return BoostedSearch(task, space, seed, objective)

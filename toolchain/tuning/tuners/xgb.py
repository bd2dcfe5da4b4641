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

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import combinations
from math import exp, inf, isfinite, log2
from random import Random
from typing import Any, Generic, Literal, TypeGuard

import numpy as np

from toolchain.tasks.backend import MakeTuner
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Experience, FiniteSpace, P, Space
from toolchain.tuning.tuners.draw import chance, drawn
from toolchain.tuning.tuners.fitting import with_decisions
from toolchain.tuning.tuners.seen import Seen
from toolchain.tuning.tuners.trend import Floats, Trend, trend_of

# Turns the decisions of a point into features for a cost model.

_PAIRED = 12  # number of positive decisions that are multiplied in pairs: 66 products


class KnobFeatures(Generic[P]):
    """The decisions of a point as features.

    A number is one feature, a tuple of numbers one for each element, anything else is one-hot encoded. The
    logarithms of the products of two positive numbers are features, too: products of tile sizes decide
    whether data fit a buffer, and the model's trees are too shallow to learn products.

    Attributes
    ----------
    are_numbers
        Whether all decisions are numbers: then each has the same meaning whatever the others are.
    """

    def __init__(self, space: FiniteSpace[P]) -> None:
        self._space = space
        positive = [name for name, domain in space.domains.items() if _positive(domain)]
        self._pairs = list(combinations(positive[:_PAIRED], 2))
        self.are_numbers = all(map(_numeric, space.domains.values()))

    def features(self, point: P) -> list[float]:
        """Return the features of a point, equally many for each point of the space."""
        decisions = self._space.decisions(point)
        numbers = [
            number
            for name, domain in self._space.domains.items()
            for number in _numbers(decisions[name], domain)
        ]
        products: list[Any] = [(decisions[one], decisions[other]) for one, other in self._pairs]
        return [*numbers, *(log2(one) + log2(other) for one, other in products)]

    def promising(self, point: P) -> list[float]:
        """Return the features and, last, log2(1 + index) of the point: the first points promise most."""
        return [*self.features(point), log2(1 + self._space.index(point))]


def _numeric(domain: Sequence[Hashable]) -> TypeGuard[Sequence[float]]:
    return all(isinstance(other, int | float) and not isinstance(other, bool) for other in domain)


def _positive(domain: Sequence[Hashable]) -> bool:
    return _numeric(domain) and len(domain) > 1 and min(domain) > 0


def _numbers(decision: Hashable, domain: Sequence[Hashable]) -> list[float]:
    if isinstance(decision, int | float) and all(isinstance(other, int | float) for other in domain):
        return [float(decision)]
    tuples = [other for other in domain if isinstance(other, tuple)]
    if isinstance(decision, tuple) and len(tuples) == len(domain) and all(map(_of_numbers, tuples)):
        longest = max(map(len, tuples))
        return [*map(float, decision), *[0.0] * (longest - len(decision))]
    return [float(decision == other) for other in domain]


def _of_numbers(decision: tuple[Hashable, ...]) -> bool:
    return all(isinstance(each, int | float) for each in decision)


# Cost models of boosted trees that predict how good a point is.

Objective = Literal["reg:squarederror", "rank:pairwise"]

# Shallow trees, since there are few rows; the parameters of AutoTVM's cost model.
_TREES = {"max_depth": 3, "eta": 0.3, "gamma": 1e-4, "min_child_weight": 1, "lambda": 1.0}
_ROUNDS = 30
_MEMBERS = 8  # one for each point of a batch


@dataclass(frozen=True)
class Lesson:
    """Measured points of one task on one target, whose times can be compared with each other.

    Attributes
    ----------
    rows
        Features of the points, shape (points, features).
    scores
        Best time divided by the point's time, shape (points,): 1 for the best point, 0 for a failure.
    """

    rows: Floats
    scores: Floats


def scores(times: Sequence[float]) -> Floats:
    """Return the score of each time of one lesson; infinite times are failures and score 0."""
    best = min(times)
    return np.asarray([best / time if isfinite(time) else 0.0 for time in times], np.float32)


class Committee:
    """An ensemble of xgboost models, each trained on a bootstrap sample of the known points.

    Their predictions differ most where few points are known. A batch of one favourite of each member tries
    points that might be the best, instead of eight that are similar (bootstrapped Thompson sampling: Eckles
    and Kaptein, arXiv:1410.4009).

    Parameters
    ----------
    objective
        `reg:squarederror`: predict scores. `rank:pairwise`: predict their order within a lesson.
    leaning
        Whether a linear trend predicts scores first, so that the trees learn only its residuals. Only the
        trend uses the last feature.
    """

    def __init__(self, objective: Objective, seed: int, *, leaning: bool = False) -> None:
        self._params = {**_TREES, "objective": objective, "nthread": 1, "verbosity": 0, "seed": seed}
        self._random = np.random.default_rng(seed)
        self._leaning = leaning
        self._members: list[_Member] = []

    @property
    def trained(self) -> bool:
        """Whether the models are trained, so that `guess` can be called."""
        return bool(self._members)

    def train(self, lessons: Sequence[Lesson]) -> None:
        """Train all members from scratch; takes 0.1 s for 100 points on one core."""
        self._members = [self._member(lessons) for _ in range(_MEMBERS)]

    def guess(self, rows: Floats) -> Floats:
        """Return each member's predictions for points, larger is better; shape (members, points)."""
        guesses: Floats = np.stack([member.guess(rows) for member in self._members])
        return guesses

    def _member(self, lessons: Sequence[Lesson]) -> _Member:
        import xgboost  # takes 0.6 s

        drawn = [np.sort(self._random.integers(len(each.rows), size=len(each.rows))) for each in lessons]
        rows = np.concatenate([lesson.rows[own] for lesson, own in zip(lessons, drawn, strict=True)])
        heights = np.concatenate([lesson.scores[own] for lesson, own in zip(lessons, drawn, strict=True)])
        trend = None
        if self._leaning:
            trend = trend_of(rows, heights, np.concatenate([lesson.rows for lesson in lessons]))
        if trend is None:
            data = xgboost.DMatrix(rows, heights)
        else:
            data = xgboost.DMatrix(_without_last(rows), heights, base_margin=trend.guess(rows))
        if self._params["objective"] == "rank:pairwise":
            data.set_group([len(lesson.rows) for lesson in lessons])
        return _Member(xgboost.train(self._params, data, _ROUNDS), trend)


@dataclass(frozen=True)
class _Member:
    """The trees of one xgboost model, and the trend whose residuals they predict."""

    trees: Any
    trend: Trend | None

    def guess(self, rows: Floats) -> Floats:
        if self.trend is None:
            guesses: Floats = self.trees.inplace_predict(rows)
        else:
            guesses = self.trees.inplace_predict(_without_last(rows), base_margin=self.trend.guess(rows))
        return guesses


def _without_last(rows: Floats) -> Floats:
    return np.ascontiguousarray(rows[:, :-1])


def favourites(guesses: Floats, count: int) -> list[int]:
    """Return the indices of the best points, taking each member's next favourite in turn, none twice."""
    orders = [iter(np.argsort(-own, kind="stable").tolist()) for own in guesses]
    chosen: dict[int, None] = {}
    for turn in range(min(count, guesses.shape[1])):
        chosen[next(place for place in orders[turn % len(orders)] if place not in chosen)] = None
    return list(chosen)


# Simulated annealing: finds points with good predictions in a space that is too large to list.
#
# As in AutoTVM (Chen et al., Learning to Optimize Tensor Programs, 2018, section 3.2): many chains walk
# through the space at once, each from a point to a neighbour; they accept a worse point less often as they
# cool down.

Guess = Callable[[Sequence[P]], Sequence[float]]
"""Predicts a score for each point; larger is better."""


def anneal(space: Space[P], guess: Guess[P], starts: Sequence[P], steps: int, random: Random) -> list[P]:
    """Return all points that the chains visited, the best by `guess` first.

    Parameters
    ----------
    starts
        Points where the chains begin, one chain each.
    steps
        Number of steps of each chain.
    """
    chains = list(dict.fromkeys(starts))
    heights = [float(height) for height in guess(chains)]
    met = dict(zip(chains, heights, strict=True))
    spread = (max(heights) - min(heights) or 1.0) if heights else 1.0
    for step in range(steps):
        warmth = spread * (1 - step / steps)
        moves = [random.choice(space.neighbours(point, random) or [point]) for point in chains]
        new = [point for point in dict.fromkeys(moves) if point not in met]
        met.update(zip(new, map(float, guess(new)) if new else (), strict=True))
        for place, point in enumerate(moves):
            gain = met[point] - heights[place]
            if gain >= 0 or random.random() < exp(gain / warmth):
                chains[place], heights[place] = point, met[point]
    return sorted(met, key=lambda point: -met[point])


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

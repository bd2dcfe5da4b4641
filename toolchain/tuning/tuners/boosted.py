"""Cost models of boosted trees that predict how good a point is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np

from toolchain.tuning.tuners.trend import Floats, Trend, trend_of

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

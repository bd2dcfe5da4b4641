"""Boosted trees that guess how good a point is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np

from toolchain.tuning.tuners.trend import Floats, Trend, trend_of

Objective = Literal["reg:squarederror", "rank:pairwise"]

# Shallow trees for few rows, as AutoTVM's cost model had them.
_TREES = {"max_depth": 3, "eta": 0.3, "gamma": 1e-4, "min_child_weight": 1, "lambda": 1.0}
_ROUNDS = 30
_MEMBERS = 8  # as many as the points of a batch


@dataclass(frozen=True)
class Lesson:
    """Points of one task that were measured in one place: only these can be compared with one another.

    Attributes
    ----------
    rows
        Features of the points: shape (points, features).
    scores
        Best time of the task over the point's time: from 1, the best, to 0, a failure; shape (points,).
    """

    rows: Floats
    scores: Floats


def scores(times: Sequence[float]) -> Floats:
    """Return how good times of one lesson are; infinite ones are failures."""
    best = min(times)
    return np.asarray([best / time if isfinite(time) else 0.0 for time in times], np.float32)


class Committee:
    """Models of xgboost's, each trained on a sample of what is known, drawn with replacement.

    Where little is known their opinions differ. A batch of the favourites of one after the other tries what
    might be the best, not eight times what looks best (bootstrapped Thompson sampling: Eckles and Kaptein,
    arXiv:1410.4009).

    Parameters
    ----------
    objective
        `reg:squarederror`: scores are guessed. `rank:pairwise`: their order within a lesson.
    threads
        Of training and guessing.
    leaning
        Scores are guessed by a trend first, and the trees learn what it leaves. The last feature is the
        trend's alone.
    """

    def __init__(self, objective: Objective, seed: int, threads: int = 1, *, leaning: bool = False) -> None:
        self._params = {**_TREES, "objective": objective, "nthread": threads, "verbosity": 0, "seed": seed}
        self._random = np.random.default_rng(seed)
        self._leaning = leaning
        self._members: list[_Member] = []

    @property
    def trained(self) -> bool:
        """Whether it can guess."""
        return bool(self._members)

    def train(self, lessons: Sequence[Lesson]) -> None:
        """Learn from scratch: 0.1 s for 100 points on one core."""
        self._members = [self._member(lessons) for _ in range(_MEMBERS)]

    def guess(self, rows: Floats) -> Floats:
        """Return how good points are to each member, more is better: shape (members, points)."""
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
    """Trees of xgboost's, and what they begin from."""

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
    """Return the places of the best points, of one member after the other, none twice."""
    orders = [iter(np.argsort(-own, kind="stable").tolist()) for own in guesses]
    chosen: dict[int, None] = {}
    for turn in range(min(count, guesses.shape[1])):
        chosen[next(place for place in orders[turn % len(orders)] if place not in chosen)] = None
    return list(chosen)

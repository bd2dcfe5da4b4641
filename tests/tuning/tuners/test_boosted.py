"""Trees that guess."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from toolchain.tuning.tuners.xgb import Committee, Lesson, Objective, favourites, scores


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["reg:squarederror", "rank:pairwise"])
def test_what_was_learned_of_two_tasks_orders_new_points(objective: Objective) -> None:
    """The second task takes the same shape with other points; only within a lesson are scores compared."""
    rows = np.random.default_rng(1).random((120, 3), np.float32)
    height = 1 - (rows[:, 0] - 0.5) ** 2 - rows[:, 1] / 2
    lessons = [Lesson(rows[:40], height[:40]), Lesson(rows[40:80], height[40:80])]
    models = Committee(objective, 1)
    assert not models.trained
    models.train(lessons)
    guessed = models.guess(rows[80:]).mean(axis=0)
    assert models.trained and np.corrcoef(guessed, height[80:])[0, 1] > 0.8


def test_a_leaning_committee_guesses_beyond_what_it_was_shown() -> None:
    """Trees alone guess the same for all that is larger than the largest."""
    rows = np.random.default_rng(1).random((40, 3), np.float32)
    lesson, beyond = Lesson(rows, rows[:, 0] / 2), np.asarray([[1, 0, 0], [2, 0, 0], [3, 0, 0]], np.float32)
    plain, leaning = Committee("reg:squarederror", 1), Committee("reg:squarederror", 1, leaning=True)
    for models in (plain, leaning):
        models.train([lesson])
    assert np.ptp(plain.guess(beyond).mean(axis=0)) < 0.01
    assert (np.diff(leaning.guess(beyond).mean(axis=0)) > 0.3).all()


def test_failures_score_nothing() -> None:
    assert scores([2.0, inf, 4.0]).tolist() == [1.0, 0.0, 0.5]
    assert scores([inf, inf]).tolist() == [0.0, 0.0]


def test_favourites_are_of_one_member_after_the_other() -> None:
    guesses = np.asarray([[3, 2, 1, 0], [3, 1, 0, 2]], np.float32)
    assert favourites(guesses, 3) == [0, 3, 1]
    assert favourites(guesses, 9) == [0, 3, 1, 2]

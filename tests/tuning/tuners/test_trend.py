"""Straight lines through scores."""

from __future__ import annotations

import numpy as np
import pytest

from toolchain.tuning.tuners.trend import Floats, trend_of


def rows(count: int, features: int) -> Floats:
    return np.random.default_rng(1).random((count, features), np.float32) * 10


def test_it_goes_on_beyond_what_is_known() -> None:
    known = rows(20, 3)
    trend = trend_of(known, known[:, 0] / 10 - known[:, 1] / 20, known)
    near, far = trend.guess(np.asarray([[5, 5, 5], [30, 5, 5]], np.float32))
    assert far - near == pytest.approx(2.5, rel=0.1)


def test_what_is_the_same_everywhere_says_nothing() -> None:
    known = rows(20, 2)
    known[:, 1] = 7
    trend = trend_of(known, known[:, 0] / 10, known)
    one, other = trend.guess(np.asarray([[5, 7], [5, 100]], np.float32))
    assert one == other
    assert trend_of(known[:1], np.ones(1, np.float32), known[:1]).guess(known).tolist() == [1.0] * 20


def test_fewer_points_than_features_make_no_leaps() -> None:
    known = rows(30, 25)
    trend = trend_of(known[:4], known[:4, 0] / 10, known[:4])
    assert np.abs(trend.guess(known)).max() < 5

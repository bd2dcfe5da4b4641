"""Histograms, and the ranges chosen from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.models.quantising.affine_scales import METHODS, TOP, Histogram, scale_for


def histogram(*images: np.ndarray) -> Histogram:
    made = Histogram()
    for image in images:
        made.add(image)
    return made


def error(values: np.ndarray, low: float, high: float) -> float:
    scale = scale_for(low, high)
    steps = np.clip(np.rint(values / scale.step) + scale.zero, 0, TOP)
    return float(np.square((steps - scale.zero) * scale.step - values).sum())


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), max_size=5), max_size=4))
def test_every_value_is_in_its_bin(images: list[list[float]]) -> None:
    arrays = [np.array(image, np.float32) for image in images]
    values = np.concatenate([*arrays, np.zeros(0, np.float32)])
    made = histogram(*arrays)
    assert made.counts.sum() == np.count_nonzero(values)
    assert (made.low, made.high) == (min(0, values.min(initial=0)), max(0, values.max(initial=0)))
    width = made.centres[1] - made.centres[0]
    for value in values[values != 0]:
        assert made.counts[np.abs(made.centres - value) <= width * 0.5001].sum() > 0


def test_a_larger_image_makes_bins_wider_and_keeps_the_counts() -> None:
    small, large = np.full(7, 0.3, np.float32), np.full(3, -900.0, np.float32)
    one, other = histogram(small, large), histogram(large, small)
    assert one.counts.sum() == 10 and (one.counts == other.counts).all()
    assert (one.centres == other.centres).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("values", [np.zeros(5), np.zeros(0), np.full(4, 3.0), np.full(4, -1e-30)])
def test_any_tensor_has_a_range_with_0(method: str, values: np.ndarray) -> None:
    low, high = METHODS[method](histogram(values.astype(np.float32)))
    assert low <= 0 <= high and np.isfinite([low, high]).all()
    assert low >= min(0, values.min(initial=0)) * 1.001 and high <= max(0, values.max(initial=0)) * 1.001


def test_minmax_takes_all() -> None:
    assert METHODS["minmax"](histogram(np.array([-3.0, 1, 40], np.float32))) == (-3.0, 40.0)


def test_percentile_leaves_out_one_value_of_ten_thousand() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, 100_000).astype(np.float32)
    values[:3] = (50, 60, -70)
    low, high = METHODS["percentile"](histogram(values))
    assert -1.1 < low < -0.95 and 0.95 < high < 1.1
    share = np.mean((values < low) | (values > high))
    assert 1e-5 < share < 4e-4


def test_mse_clips_rare_outliers() -> None:
    values = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    values[0] = 9
    low, high = METHODS["mse"](histogram(values))
    assert 4 < high < 7 and -5 <= low < -3.5
    assert error(values, low, high) < 0.9 * error(values, values.min(), 9)


@pytest.mark.parametrize("power", [1, 3])
def test_mse_is_near_the_best_of_a_search(power: int) -> None:
    """The estimate of the error, a twelfth of a step, is as good as rounding every value."""
    values = (np.random.default_rng(1).standard_normal(5_000) ** power).astype(np.float32)
    values = np.maximum(values, 0)
    ends = values.max() * np.linspace(0.1, 1, 91)
    best = min(error(values, 0, end) for end in ends)
    assert error(values, *METHODS["mse"](histogram(values))) < 1.15 * best

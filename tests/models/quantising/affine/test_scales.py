"""Scales: what integers stand for, and when rounding to them limits values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.models.quantising.affine_scales import (
    BIAS_TOP,
    LEAST,
    MOST,
    TOP,
    Scale,
    integer_weights,
    scale_for,
)

ENDS = st.floats(-(2.0**100), 2.0**100, width=32)


@given(ENDS, ENDS)
def test_a_scale_is_a_positive_number_and_0_is_exact(one: float, other: float) -> None:
    scale = scale_for(min(one, other), max(one, other))
    assert LEAST * 0.99 <= scale.step <= MOST * 1.01 and 0 <= scale.zero <= TOP
    assert scale.step == float(np.float32(scale.step))


@given(st.floats(-1e6, 0), st.floats(0, 1e6))
def test_a_range_is_covered_to_half_a_step(low: float, high: float) -> None:
    scale = scale_for(low, high)
    slack = 0.51 * scale.step
    least, most = (float(end - scale.zero) * scale.step for end in (0, TOP))
    assert least <= low + slack and most >= high - slack


@given(st.floats(-100, -1e-9) | st.just(0.0), st.floats(1e-9, 100), st.floats(0, 1), st.floats(1e-3, 1))
def test_a_range_within_limits_implies_them(low: float, high: float, less: float, more: float) -> None:
    """So that a Relu or Clip before the rounding can be left out."""
    assert scale_for(low * less, high * more).implies(low, high)


def test_a_scale_that_reaches_beyond_limits_does_not_imply_them() -> None:
    assert not scale_for(-1, 1).implies(0, np.inf)
    assert not scale_for(0, 7).implies(0, 6)
    assert scale_for(0, 6).implies(0, 6) and scale_for(0, 3).implies(0, 6)


@pytest.mark.parametrize("value", [0.0, -0.0])
def test_a_tensor_of_zeros_has_a_scale(value: float) -> None:
    assert scale_for(value, value) == Scale(1.0, 0)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1]), st.sampled_from([1e-30, 1e-3, 1.0, 1e4]))
def test_weights_are_off_by_half_a_step_at_most(seed: int, axis: int, size: float) -> None:
    random = np.random.default_rng(seed)
    weight: np.ndarray = np.float32(size) * random.standard_normal((4, 5), np.float32)
    weight[tuple([2] if axis == 0 else [slice(None), 2])] = 0
    bias = random.standard_normal((weight.shape[axis],)).astype(np.float32)
    source = Scale(0.01, 128)
    made = integer_weights(weight, bias, axis, source)
    steps = made.steps.reshape((-1, 1) if axis == 0 else (1, -1)).astype(np.float64)
    assert np.abs(made.weight.astype(int)).max() <= 127 and np.isfinite(made.steps).all()
    assert (made.steps > 0).all() and (np.abs(made.bias) <= BIAS_TOP).all()
    assert (np.abs(made.weight * steps - weight) <= 0.5001 * steps).all()
    sums = source.step * made.steps.astype(np.float64)
    assert (np.abs(made.bias * sums - bias) <= 0.51 * sums + 1e-6 * np.abs(bias)).all()


def test_a_channel_without_weights_keeps_its_bias() -> None:
    made = integer_weights(np.zeros((1, 3), np.float32), np.array([5.0], np.float32), 0, Scale(1e-6, 0))
    assert made.bias[0] * 1e-6 * made.steps[0] == pytest.approx(5.0, rel=1e-5)

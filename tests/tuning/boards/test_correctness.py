"""What is wrong with a candidate is found, and rounding is none of it."""

from __future__ import annotations

import numpy as np
import pytest

from toolchain.tuning.boards.correctness import wrong

EXPECTED = np.linspace(-3, 3, 64, dtype=np.float32).reshape(8, 8)


def test_rounding_is_no_fault() -> None:
    assert wrong([EXPECTED * np.float32(1 + 1e-5)], [EXPECTED]) == ""


@pytest.mark.parametrize("value", [3.5, np.nan, np.inf])
def test_one_value_that_is_another_is_wrong(value: float) -> None:
    output = EXPECTED.copy()
    output[2, 3] = value
    assert "differs from the definition by" in wrong([output], [EXPECTED])


def test_every_output_counts() -> None:
    assert wrong([EXPECTED, EXPECTED + 1], [EXPECTED, EXPECTED])


def test_beyond_the_domain_nothing_is_asked() -> None:
    expected = EXPECTED.copy()
    expected[0, 0], expected[0, 1] = np.nan, np.inf
    output = EXPECTED.copy()
    assert wrong([output], [expected]) == ""
    output[1, 1] += 1
    assert wrong([output], [expected])


def test_zeros_must_be_zeros() -> None:
    zeros = np.zeros(4, np.float32)
    assert wrong([zeros], [zeros]) == ""
    assert wrong([zeros + np.float32(1e-6)], [zeros])


def test_float16_is_coarser() -> None:
    half = EXPECTED.astype(np.float16)
    assert wrong([half * np.float16(1.01)], [half]) == ""
    assert wrong([half * np.float16(1.03)], [half])


def test_integers_are_compared() -> None:
    counts = np.arange(8)
    assert wrong([counts], [counts]) == "" and wrong([counts[::-1]], [counts])


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_half_that_is_rounded_the_other_way_is_no_fault(dtype: str) -> None:
    expected = np.random.default_rng(0).integers(0, 255, 10_000).astype(dtype)
    output = expected.copy()
    output[:50] += 1
    assert wrong([output], [expected]) == ""
    output[:200] += 1  # 2 %: no accident
    assert wrong([output], [expected])
    two = expected.copy()
    two[0] += 2
    assert wrong([two], [expected])


def test_an_index_beside_the_right_one_is_wrong() -> None:
    expected = np.arange(10_000)
    output = expected.copy()
    output[0] += 20
    assert wrong([output], [expected])

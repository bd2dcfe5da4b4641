"""Numbers that a board draws, too: what they are like, and that they never change."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest

from toolchain.tasks.draws import TYPES, Draw


@pytest.mark.parametrize("dtype", TYPES)
def test_they_are_about_normally_distributed(dtype: str) -> None:
    values = Draw(dtype, (300, 500), 1, -5).values().astype(np.float64) * 32
    assert values.shape == (300, 500)
    assert abs(values.mean()) < 0.01 and abs(values.std() - 1) < 0.01 and 2.5 < np.abs(values).max() <= 3
    assert abs(np.mean(np.abs(values) < 0.6745) - 0.5) < 0.03  # half of a normal distribution


@pytest.mark.parametrize(("dtype", "factor"), [("float32", 64), ("float16", 8)])
def test_some_are_zeros_and_some_large(dtype: str, factor: int) -> None:
    plain, edges = (Draw(dtype, (1 << 18,), 3, edges=edges).values() for edges in (False, True))
    zeros, same, large = edges == 0, edges == plain, edges == plain * factor
    assert abs(zeros.mean() - 1 / 4) < 0.01
    assert abs((large & ~zeros).mean() - 1 / 64) < 0.002
    assert (zeros | same | large).all()


def test_parts_and_seeds() -> None:
    long = Draw("float32", ((1 << 20) + 5,), 9).values()
    assert np.array_equal(long[:7], Draw("float32", (7,), 9).values())
    assert np.unique(long[-10:]).size == 10
    assert not np.array_equal(long[:7], Draw("float32", (7,), 10).values())


def test_float16_has_each_number_exactly() -> None:
    for exponent in (-16, 0, 8):
        for edges in (False, True):
            halves = Draw("float16", (5000,), 4, exponent, edges)
            assert np.array_equal(halves.values().astype(np.float32), halves._part(0, 5000))


def test_they_never_change() -> None:
    """The numbers of a folder that was exported are those of its edge-rt."""
    values = [Draw(dtype, (40,), 5, -3, edges=True).values().tobytes() for dtype in TYPES]
    assert sha256(b"".join(values)).hexdigest()[:16] == "2d79f2c629571a75"

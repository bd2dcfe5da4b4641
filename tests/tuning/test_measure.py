"""What a board says of a measurement is believed where a clock can have shown it."""

from __future__ import annotations

import pytest

from toolchain.errors import CheckError
from toolchain.tuning.measure import _facts, _milliseconds


def test_times_become_milliseconds() -> None:
    assert _milliseconds("far", [0.5, 1e-9], 10.0) == (500.0, pytest.approx(1e-6))


@pytest.mark.parametrize("seconds", [-0.001, 0.0, float("nan"), float("inf"), -float("inf"), 10.5, 1e300])
def test_a_time_that_no_clock_shows_is_told_with_its_board(seconds: float) -> None:
    with pytest.raises(CheckError, match=r"board far: the time of a measurement cannot be right: .* s of a"):
        _milliseconds("far", [0.5, seconds], 10.0)


@pytest.mark.parametrize("said", [None, 5, b"{}", [], "", "[]", '{"governor": 5}', "[" * 100_000])
def test_facts_are_a_document(said: object) -> None:
    with pytest.raises(CheckError, match=r"board far: the answer of edge\.info cannot be right"):
        _facts("far", said)

"""The default stays unless it is beaten by more than the noise."""

from __future__ import annotations

from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from toolchain.tuning.judging.confirm import choose

times = st.lists(st.floats(0.1, 10), min_size=3, max_size=9)


def test_clear_win_is_taken() -> None:
    assert choose({0: [2.0, 2.1, 2.0], 1: [1.0, 1.05, 1.0]}) == 1


def test_win_within_the_noise_is_not_taken() -> None:
    assert choose({0: [2.0, 3.0, 1.0], 1: [1.9, 2.9, 0.9]}) == 0


def test_fastest_of_several_wins() -> None:
    assert choose({0: [9.0] * 3, 1: [5.0] * 3, 2: [4.0] * 3}) == 2


def test_failing_default_leaves_the_choice_to_the_others() -> None:
    assert choose({1: [5.0] * 3, 2: [4.0] * 3}) == 2


@given(times, times)
def test_winner_has_the_smaller_median_or_is_the_default(default: list[float], other: list[float]) -> None:
    winner = choose({0: default, 1: other})
    assert winner == 0 or median(other) < median(default)


@given(times)
def test_equal_times_keep_the_default(same: list[float]) -> None:
    assert choose({0: same, 1: list(same)}) == 0

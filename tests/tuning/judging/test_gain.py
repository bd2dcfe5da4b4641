"""What tuning brings is told with what it may be off by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.tuning.judging.gain import fastest, gain

times = st.floats(0.1, 1000)


def test_a_clear_win_is_sure() -> None:
    brought = gain([10.0, 10.1, 9.9, 10.0], [9.0, 9.1, 8.9, 9.0])
    assert brought.sure and brought.share == pytest.approx(0.1, abs=0.001)
    assert str(brought) == "10.0% ± 0.1% faster"


def test_what_scatters_is_not_sure() -> None:
    brought = gain([10.0, 12.0, 9.0], [9.8, 10.0, 10.0])
    assert not brought.sure


def test_a_loss_is_a_loss() -> None:
    brought = gain([10.0, 10.1, 9.9], [11.0, 11.1, 10.9])
    assert not brought.sure and str(brought).endswith("slower")


def test_what_slows_both_for_a_while_counts_for_neither() -> None:
    assert gain([10.0, 20.0, 40.0], [9.0, 18.0, 36.0]).sure


def test_the_interval_is_students() -> None:
    """Shares of 0, 1, 2 and 3 hundredths: mean 1.5, standard error 1.291 / 2, t of three degrees 3.182."""
    brought = gain([100.0] * 4, [100.0, 99.0, 98.0, 97.0])
    assert brought.share == pytest.approx(0.015, rel=0.02)
    assert brought.uncertainty == pytest.approx(3.182 * 0.01290994 / 2, rel=0.03), (
        "logarithms, nearly the same"
    )


def test_a_round_that_was_held_up_counts_the_same_for_both() -> None:
    held_up = gain([10.0, 10.0, 10.0, 50.0], [10.0, 10.0, 50.0, 10.0])
    assert held_up.share == pytest.approx(0.0, abs=1e-9) and not held_up.sure


@given(st.lists(st.tuples(times, times), min_size=2, max_size=20))
def test_not_both_of_two_are_surely_faster(pairs: list[tuple[float, float]]) -> None:
    before, after = zip(*pairs, strict=True)
    assert not (gain(before, after).sure and gain(after, before).sure)


def test_one_round_says_nothing() -> None:
    assert not gain([10.0], [1.0]).sure and not gain([], []).sure


@given(st.lists(times, min_size=2, max_size=30))
def test_equals_are_never_sure(same: list[float]) -> None:
    assert not gain(same, list(same)).sure


def test_fastest_of_several_wins() -> None:
    assert fastest({0: [9.0] * 3, 1: [5.0] * 3, 2: [4.0] * 3}) == 2


def test_a_win_within_the_noise_is_not_taken() -> None:
    assert fastest({0: [2.0, 3.0, 1.0], 1: [1.9, 2.9, 0.9]}) == 0


def test_failing_default_leaves_the_choice_to_the_others() -> None:
    assert fastest({1: [5.0] * 3, 2: [4.0] * 3}) == 2
    assert fastest({}) == 0


@given(st.lists(times, min_size=1, max_size=9), st.lists(times, min_size=1, max_size=9))
def test_the_fastest_is_surely_faster_or_the_default(default: list[float], other: list[float]) -> None:
    assert (fastest({0: default, 1: other}) == 1) == gain(default, other).sure

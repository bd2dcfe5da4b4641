"""A reference kernel tells a slow board from a busy host, and a hot one from a slow one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.speed import IN_A_ROW, Complaint, Speed, repeat_ms


def read(speed: Speed, ms: Mapping[str, float], celsius: float | None = None) -> dict[str, Complaint | None]:
    """Let each board take so long; return the complaints."""
    for name, least in ms.items():
        speed.note(name, Result((3 * least, least), temperature_c=celsius), 0.1, 1.0)
    return {name: speed.complaint(name) for name in ms}


def last(speed: Speed, *readings: Mapping[str, float], celsius: float | None = None) -> dict[str, str]:
    """Return the complaints after the last of several readings, of which no earlier one had any."""
    for ms in readings[:-1]:
        assert not any(read(speed, ms, celsius).values())
    return {name: each.reason for name, each in read(speed, readings[-1], celsius).items() if each}


def test_repeats_are_as_long_as_samples_of_candidates() -> None:
    assert [repeat_ms(candidates) for candidates in (0, 20, 300)] == [20, 20, 300]


@pytest.fixture
def speed() -> Speed:
    return Speed(("a", "b", "c"))


def test_one_that_is_slow_from_the_beginning(speed: Speed) -> None:
    said = "the reference kernel takes 1.9 times as long as on the other boards"
    assert last(speed, *[{"a": 2.0, "b": 1.0, "c": 1.1}] * IN_A_ROW) == {"a": said}
    speed.forget("a")
    assert last(speed, *[{"b": 1.0, "c": 1.1}] * 2 * IN_A_ROW) == {}


def test_one_that_became_slow(speed: Speed) -> None:
    before, after = {"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 2.1, "b": 1.0, "c": 1.0}
    said = "the reference kernel takes 2.1 times as long as at the beginning: it is hot or busy"
    assert last(speed, before, *[after] * IN_A_ROW) == {"a": said}


def test_a_lucky_beginning_is_no_reason_where_others_are_as_slow_now(speed: Speed) -> None:
    assert last(speed, {"a": 1.0, "b": 1.9, "c": 2.0}, *[{"a": 2.0, "b": 1.9, "c": 2.0}] * 5) == {}


def test_where_the_temperature_is_known_and_low_it_is_not_hot(speed: Speed) -> None:
    after = {"a": 2.1, "b": 1.0, "c": 1.0}
    said = last(speed, {"a": 1.0, "b": 1.0, "c": 1.0}, *[after] * IN_A_ROW, celsius=45.0)
    assert said["a"].endswith("at the beginning: it is busy, or its clock was lowered")


def test_one_that_is_hot_is_complained_of_sooner_and_passes(speed: Speed) -> None:
    before, after = {"a": 1.0, "b": 1.0}, {"a": 1.3, "b": 1.0}
    assert not any(complaint for _ in range(2 * IN_A_ROW) for complaint in read(speed, after, 60.0).values())
    other = Speed(("a", "b"))
    read(other, before, 60.0)
    for _ in range(IN_A_ROW - 1):
        assert not any(read(other, after, 82.0).values())
    said = "it is at 82 °C, and the reference kernel takes 1.3 times as long as at the beginning"
    assert read(other, after, 82.0) == {"a": Complaint(said, hot=True), "b": None}


def test_one_that_is_hot_and_as_fast_as_ever_is_sound(speed: Speed) -> None:
    assert last(speed, *[{"a": 1.1, "b": 1.0, "c": 1.0}] * 2 * IN_A_ROW, celsius=90.0) == {}


def test_a_board_alone_is_compared_with_itself() -> None:
    alone = Speed(("a",))
    said = last(alone, {"a": 1.0}, *[{"a": 1.6}] * IN_A_ROW)
    assert said["a"].startswith("the reference kernel takes 1.6 times as long as at the beginning")


def test_what_slows_all_is_no_boards_fault(speed: Speed) -> None:
    assert last(speed, {"a": 1.0, "b": 1.0, "c": 1.0}, *[{"a": 3.0, "b": 3.0, "c": 3.0}] * 5) == {}


def test_others_that_got_faster_are_no_complaint() -> None:
    assert last(Speed(("a", "b")), {"a": 1.0, "b": 1.4}, *[{"a": 1.0, "b": 0.9}] * 5) == {}


def test_one_sound_reading_ends_the_doubt(speed: Speed) -> None:
    bad, good = {"a": 2.0, "b": 1.0, "c": 1.0}, {"a": 1.0, "b": 1.0, "c": 1.0}
    assert last(speed, good, bad, bad, good, bad, bad, good) == {}


@given(st.lists(st.tuples(*[st.floats(1.0, 50.0)] * 3), max_size=30))
def test_a_busy_host_makes_no_board_slow_that_is_undisturbed_now_and_then(
    noise: list[tuple[float, float, float]],
) -> None:
    speed = Speed(("a", "b", "c"))
    for number, factors in enumerate(noise):
        undisturbed = number % IN_A_ROW
        ms = {name: factors[at] if at != undisturbed else 1.0 for at, name in enumerate("abc")}
        assert not any(read(speed, ms).values())


def test_a_doubt_has_all_boards_read_again_at_once(speed: Speed) -> None:
    read(speed, {"a": 1.0, "b": 1.0, "c": 1.0})
    assert not any(speed.due(name, 2.0) for name in "abc")
    assert speed.due("a", 1.0 + 200 * 0.1), "after 200 times as long as the reading took"
    read(speed, {"a": 2.0})
    assert all(speed.due(name, 2.0) for name in "abc")
    read(speed, {"b": 1.0})
    assert [name for name in "abc" if speed.due(name, 2.0)] == ["a", "c"]
    read(speed, {"a": 2.0})
    assert all(speed.due(name, 2.0) for name in "abc"), "of the same time are to be those that are compared"


def test_readings_take_two_percent_of_a_boards_time_at_most() -> None:
    speed, used, reading, readings = Speed(("a",)), 0.0, 0.25, 0
    while used < 3600:
        while speed.due("a", used):
            used += reading
            readings += 1
            ms = 1.0 if readings == 1 else 2.0  # always in doubt
            speed.note("a", Result((ms,)), reading, used)
            speed.complaint("a")
        used += 1.0
    assert readings > 50
    assert readings * reading <= 0.021 * used


def test_one_that_comes_back_is_read_before_it_is_used(speed: Speed) -> None:
    read(speed, {"a": 1.0})
    assert not speed.due("a", 1.0)
    speed.ask_again("a")
    assert speed.due("a", 1.0)
    speed.forget("a")
    assert not speed.due("a", 1.0)

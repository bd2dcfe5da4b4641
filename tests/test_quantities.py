"""Times and amounts of work: four digits, and the unit that fits."""

from __future__ import annotations

import math

import pytest

from toolchain.quantities import UNKNOWN, counted, shown_flops, shown_gflops, shown_ms, time_unit

TIMES = {
    None: UNKNOWN,
    math.nan: UNKNOWN,
    math.inf: UNKNOWN,
    0.0: "0 ms",
    0.00000012: "0.120 ns",
    0.0002: "200.0 ns",
    0.0123: "12.30 µs",
    0.9: "900.0 µs",
    0.99996: "1.000 ms",
    1.0: "1.000 ms",
    84.5678: "84.57 ms",
    999.94: "999.9 ms",
    999.96: "1.000 s",
    12345.6: "12.35 s",
    2_000_000.0: "2000 s",
}
"""Milliseconds, and how they are shown; the page's script is held to the same."""


@pytest.mark.parametrize(("ms", "shown"), TIMES.items())
def test_a_time_has_four_digits_and_the_unit_of_its_size(ms: float | None, shown: str) -> None:
    assert shown_ms(ms) == shown


@pytest.mark.parametrize(
    ("flops", "shown"),
    [
        (None, UNKNOWN),
        (0, "0 FLOP"),
        (640, "640 FLOP"),
        (999.97, "1.000 kFLOP"),
        (36_928, "36.93 kFLOP"),
        (451_584, "451.6 kFLOP"),
        (3_648_000_000, "3.648 GFLOP"),
        (2.5e15, "2500 TFLOP"),
    ],
)
def test_work_has_the_unit_of_its_size(flops: float | None, shown: str) -> None:
    assert shown_flops(flops) == shown


def test_a_slow_speed_is_not_shown_as_none() -> None:
    assert [shown_gflops(value) for value in (None, 0.027, 20.3)] == [
        UNKNOWN,
        "27.00 MFLOP/s",
        "20.30 GFLOP/s",
    ]


def test_an_axis_has_the_unit_of_its_longest_time() -> None:
    assert [time_unit(value) for value in (0.0, 0.02, 3.0, 4000.0)] == [
        *(("ms", 1.0), ("µs", 1e-3), ("ms", 1.0), ("s", 1e3)),
    ]


def test_one_is_singular_and_all_other_numbers_are_plural() -> None:
    assert [counted(number, "board") for number in (0, 1, 2)] == ["0 boards", "1 board", "2 boards"]
    assert counted(1, "entry", "entries") == "1 entry" and counted(3, "entry", "entries") == "3 entries"
    assert counted(1, "more task") == "1 more task"

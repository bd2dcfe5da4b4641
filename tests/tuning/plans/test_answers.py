"""Times are believed if a clock can have shown them."""

from __future__ import annotations

import json
import math

import pytest

from toolchain.tuning.plans.answers import CandidateLine, PossibleTimes

POSSIBLE = PossibleTimes(samples=2, least_ms=0.25, most_s=10.0)
LINE = {
    "candidate": "a" * 64,
    "failure": None,
    "ms": [1.0, 2.0],
    "message": "",
    "device": "",
    "governor": "performance",
    "temperature_c": 41.5,
    "conditions": {"clock_mhz": None, "temperature_c": None, "others": None},
}


@pytest.mark.parametrize(
    "ms", [-1.0, 0.0, 5e-324, 1e-300, 0.2499, math.nan, math.inf, -math.inf, 10.5e3, 1e300]
)
def test_refuses_times_that_no_clock_shows(ms: float) -> None:
    assert POSSIBLE.problem((500.0, 0.25)) == ""
    assert POSSIBLE.problem((500.0, ms)).startswith(f"{ms if abs(ms) < 10e3 else ms / 1e3} ")


@pytest.mark.parametrize("ms", [-1.0, 0.0, 5e-324, 0.2499, math.nan])
def test_a_model_may_take_long_but_not_less_than_hardware(ms: float) -> None:
    assert POSSIBLE.problem((20e3,), modelled=True) == "", "nobody waited for that"
    why = f"{ms} ms, but hardware of its kind needs at least 0.25 ms"
    assert POSSIBLE.problem((ms,), modelled=True) == why


@pytest.mark.parametrize("times", [(), (1.0,), (1.0, 1.0, 1.0)])
def test_refuses_another_number_of_times_than_asked_for(times: tuple[float, ...]) -> None:
    assert POSSIBLE.problem(times).startswith("it has ")
    assert POSSIBLE.problem(times).endswith(", not 2")


def test_a_line_becomes_the_result_of_a_board() -> None:
    result = CandidateLine.model_validate_json(json.dumps(LINE)).result("far", "cpu")
    assert (result.run_ms, result.board, result.failure) == ((1.0, 2.0), "far", None)
    assert (result.governor, result.temperature_c, result.conditions) == ("performance", 41.5, None)


@pytest.mark.parametrize(
    ("failure", "message", "kind", "expected"),
    [
        ("wrong result", "differs", "cpu", ("wrong result", "differs")),
        ("timeout", "not done within 2 s", "cpu", ("timeout", "not done within 2 s")),
        (
            "runtime",
            "it ended its process: Segmentation fault",
            "cpu",
            ("runtime", "it ended its process: Segmentation fault"),
        ),
        ("runtime", "[cause registers] too many", "cuda", ("registers", "too many")),
    ],
)
def test_failures_are_sorted_by_the_row_of_the_device(
    failure: str, message: str, kind: str, expected: tuple[str, str]
) -> None:
    line = CandidateLine.model_validate_json(
        json.dumps({**LINE, "failure": failure, "message": message, "ms": []})
    )
    result = line.result("far", kind)
    assert (result.failure, result.message, result.run_ms) == (*expected, ())

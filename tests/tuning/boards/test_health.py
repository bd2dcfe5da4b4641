"""A board is put aside for being worse than the others, not for a hard space or a busy host."""

from __future__ import annotations

import pytest

from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.watch import _WINDOW, Health

SOUND, FAILED = Result((1.0, 1.01)), Result(failure="runtime", message="CUDA error")
UNSTEADY = Result((1.0, 5.0))


def said(own: list[Result], other: list[Result]) -> str | None:
    health = Health(("a", "b"))
    assert health.complaint("b", other) is None
    return health.complaint("a", own)


def test_one_that_always_fails_where_another_does_not() -> None:
    complaint = said([FAILED] * _WINDOW, [SOUND] * _WINDOW)
    assert complaint is not None and complaint.endswith(
        "0% of another board's; the last: runtime: CUDA error"
    )


def test_one_whose_times_vary_where_anothers_do_not() -> None:
    complaint = said([UNSTEADY] * _WINDOW, [SOUND] * _WINDOW)
    assert complaint == "its repeats vary by 67% of their mean, those of another board by 0%"


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ([FAILED] * _WINDOW, [FAILED] * _WINDOW),
        ([UNSTEADY] * _WINDOW, [UNSTEADY] * _WINDOW),
        ([FAILED] * (_WINDOW - 1), [SOUND] * _WINDOW),
        ([SOUND, *[FAILED] * (_WINDOW - 1)], [SOUND] * _WINDOW),
        ([FAILED] * _WINDOW, [SOUND] * (_WINDOW - 1)),
        ([SOUND] * _WINDOW, [SOUND] * _WINDOW),
    ],
    ids=["all fail", "all vary", "too early", "not always", "nothing to compare with", "sound"],
)
def test_anything_else_is_no_reason(own: list[Result], other: list[Result]) -> None:
    assert said(own, other) is None


def test_a_board_alone_is_never_worse_than_others() -> None:
    assert Health(("a",)).complaint("a", [FAILED] * 2 * _WINDOW) is None


def away(health: Health, name: str, times: int) -> list[str | None]:
    return [health.loss(name) for _ in range(times)]


def test_one_that_goes_away_again_and_again_where_another_does_not() -> None:
    health = Health(("a", "b"))
    health.complaint("a", [SOUND] * 5)
    health.complaint("b", [SOUND])
    said = "it went away 3 times in 8 measurements, another board never did"
    assert away(health, "a", 3) == [None, None, said]


def test_one_that_went_away_long_ago_is_forgiven() -> None:
    health = Health(("a", "b"))
    health.complaint("b", [SOUND])
    assert away(health, "a", 2) == [None] * 2
    health.complaint("a", [SOUND] * _WINDOW)
    assert away(health, "a", 2) == [None] * 2


def test_what_no_board_survives_is_no_boards_fault() -> None:
    health = Health(("a", "b"))
    health.complaint("b", [SOUND])
    assert health.loss("b") is None
    assert away(health, "a", 5) == [None] * 5
    assert away(Health(("a", "b")), "a", 5) == [None] * 5, "of the other nothing is known"
    assert away(Health(("a",)), "a", 5) == [None] * 5

"""Shares of a fleet, as `--phases` gives them."""

from __future__ import annotations

import pytest

from toolchain.errors import UsageError
from toolchain.rollouts.course import check_phases, cut


@pytest.mark.parametrize(
    ("boards", "phases", "sizes"),
    [
        (200, "1,10%,100%", [1, 19, 180]),
        (3, "1,10%,100%", [1, 2]),
        (1, "1,10%,100%", [1]),
        (5, "2", [2]),
        (7, "50%,100%", [4, 3]),
        (2, "5,100%", [2]),
    ],
)
def test_each_board_is_in_one_phase(boards: int, phases: str, sizes: list[int]) -> None:
    names = [f"b{number}" for number in range(boards)]
    found = cut(names, check_phases(phases))
    assert [len(each) for each in found] == sizes
    assert [name for each in found for name in each] == names[: sum(sizes)]


@pytest.mark.parametrize("text", ["", "0", "1,,2", "101%", "0%", "-1", "1.5", "x"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--phases"):
        check_phases(text)


def test_a_share_below_the_one_before_is_refused() -> None:
    with pytest.raises(UsageError, match="less than the share before"):
        cut([f"b{number}" for number in range(100)], check_phases("50,10%"))

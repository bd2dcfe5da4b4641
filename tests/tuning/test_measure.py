"""What a board says of a measurement is believed where a clock can have shown it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toolchain.errors import CheckError
from toolchain.tasks.reference import write_case
from toolchain.tuning.measure import _believed, _compare, _facts


@pytest.mark.parametrize("seconds", [-0.001, 0.0, float("nan"), float("inf"), -float("inf"), 10.5, 1e300])
def test_a_time_that_no_clock_shows_is_told_with_its_board(seconds: float) -> None:
    assert _believed("far", (500.0, 1e-6), 10.0) == (500.0, 1e-6)
    with pytest.raises(CheckError, match=r"board far: the time of a measurement cannot be right: .* s of a"):
        _believed("far", (500.0, seconds * 1e3), 10.0)


@pytest.mark.parametrize("said", [None, 5, b"{}", [], "", "[]", '{"governor": 5}', "[" * 100_000])
def test_facts_are_a_document(said: object) -> None:
    with pytest.raises(CheckError, match=r"board far: the answer of edge\.info cannot be right"):
        _facts("far", said)


def test_where_nothing_is_known_the_first_to_come_are_right(tmp_path: Path) -> None:
    case = write_case(tmp_path, "case", {})
    first = np.arange(4, dtype=np.float32)
    assert _compare([first], case) == ""
    assert _compare([first], case) == ""
    assert "differs from the definition by 1" in _compare([first + 1], case)

"""What a board says of a measurement is believed where a clock can have shown it."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from toolchain.errors import CheckError
from toolchain.tasks.reference import write_case
from toolchain.tasks.upload import Times
from toolchain.tuning.boards.measure import _believed, _compare, _facts

REQUEST: Any = SimpleNamespace(least_ms=0.25, timeout_s=10.0)


@pytest.mark.parametrize(
    "ms", [-1.0, 0.0, 5e-324, 1e-300, 0.2499, math.nan, math.inf, -math.inf, 10.5e3, 1e300]
)
def test_a_time_that_no_clock_shows_is_told_with_its_board(ms: float) -> None:
    assert _believed("far", Times((500.0, 0.25)), REQUEST) == (500.0, 0.25)
    with pytest.raises(CheckError, match=r"board far: the time of a measurement cannot be right: .* s"):
        _believed("far", Times((500.0, ms)), REQUEST)


@pytest.mark.parametrize("ms", [-1.0, 0.0, 5e-324, 0.2499, math.nan])
def test_nor_does_a_model_say_so(ms: float) -> None:
    assert _believed("far", Times((20e3,), modelled=True), REQUEST) == (20e3,), "nobody waited for that"
    with pytest.raises(CheckError, match=r"board far: .* ms, and nothing of its kind is done in less"):
        _believed("far", Times((ms,), modelled=True), REQUEST)


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

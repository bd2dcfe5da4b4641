"""What a board says of a measurement is believed where a clock can have shown it."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
import tvm

from toolchain.errors import CheckError
from toolchain.tasks.candidate import Parameter, Times, write_case
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.measure import SessionLostError, Subject, _believed, _facts, _Opened

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
    with pytest.raises(CheckError, match=r"board far: .* ms, but hardware of its kind needs at least"):
        _believed("far", Times((ms,), modelled=True), REQUEST)


@pytest.mark.parametrize("said", [None, 5, b"{}", [], "", "[]", '{"governor": 5}', "[" * 100_000])
def test_facts_are_a_document(said: object) -> None:
    with pytest.raises(CheckError, match=r"board far: the answer of edge\.info cannot be right"):
        _facts("far", said)


class Writes:
    """A file whose function writes a value into its only operand; as an operand, what was written."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def of(self, *_arguments: object) -> list[Writes]:
        return [self]

    def numpy(self) -> np.ndarray:
        return self.value

    def run(self, *_arguments: object) -> None:
        pass

    def time(self, *_arguments: object) -> Times:
        return Times((1.0,))


def test_where_nothing_is_known_the_first_to_come_are_right(tmp_path: Path) -> None:
    case = write_case(tmp_path, "case", {})
    first = np.arange(4, dtype=np.float32)
    request = SimpleNamespace(cases=(case,), number=1, repeat=1, min_repeat_ms=0, least_ms=0.0, timeout_s=1.0)
    facts: Any = SimpleNamespace(governor=None, temperature_c=None)
    subject = Subject("main", (Parameter((4,), "float32"),), 1, "cpu")

    def measured(value: np.ndarray) -> Result:
        file: Any = Writes(value)
        return _Opened(request, file, "far", facts, file, file).measure(subject)

    assert measured(first).run_ms == (1.0,)
    assert measured(first).run_ms == (1.0,)
    other = measured(first + 1)
    assert other.failure == "wrong result" and "differs from the definition by 1" in other.message


def test_a_session_that_this_host_lost_is_no_failure_of_a_candidate(tmp_path: Path) -> None:
    case = write_case(tmp_path, "case", {})
    subject = Subject("main", (Parameter((4,), "float32"),), 1, "cpu")

    def measured(error: Exception) -> Result:
        def operands(*_arguments: object) -> NoReturn:
            raise error

        no: Any = SimpleNamespace(of=operands)
        return _Opened(SimpleNamespace(cases=(case,)), no, "far", no, no, no).measure(subject)

    with pytest.raises(SessionLostError, match="kShutdown"):
        measured(tvm.error.InternalError("Check failed: (code == RPCCode::kReturn) is false: code=kShutdown"))
    assert measured(tvm.error.InternalError("Check failed: no space left")).failure == "upload"
    assert measured(tvm.error.RPCError("Error caught from RPC call: kShutdown")).failure == "upload"

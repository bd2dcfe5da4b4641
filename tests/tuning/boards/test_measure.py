"""Answers of a board that a session measures on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
import tvm

from toolchain.errors import CheckError
from toolchain.tasks.candidate import Parameter, Times, write_case
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.measure import SessionLostError, Subject, _facts, _Opened
from toolchain.tuning.plans.answers import PossibleTimes


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


def test_impossible_times_name_the_board(tmp_path: Path) -> None:
    case = write_case(tmp_path, "case", {})
    request = SimpleNamespace(
        cases=(case,), number=1, repeat=1, min_repeat_ms=0, possible=PossibleTimes(1, 2.0, 10.0)
    )
    file: Any = Writes(np.zeros(4, np.float32))
    facts: Any = SimpleNamespace(governor=None, temperature_c=None)
    opened = _Opened(request, file, "far", facts, file, file)
    why = "board far: the time of a measurement cannot be right: 1.0 ms, but hardware of its kind needs"
    with pytest.raises(CheckError, match=why):
        opened.measure(Subject("main", (Parameter((4,), "float32"),), 1, "cpu"))


def test_where_nothing_is_known_the_first_to_come_are_right(tmp_path: Path) -> None:
    case = write_case(tmp_path, "case", {})
    first = np.arange(4, dtype=np.float32)
    request = SimpleNamespace(
        cases=(case,), number=1, repeat=1, min_repeat_ms=0, possible=PossibleTimes(1, 0.0, 1.0)
    )
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

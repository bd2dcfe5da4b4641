"""Plans for a board's session, and what it answers to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm

from toolchain.errors import CheckError
from toolchain.tasks.candidate import Candidate, Case, Entry, Parameter, write_case
from toolchain.tasks.draws import Draw
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tuning.boards import planned
from toolchain.tuning.boards.measure import BoardBusyError, SessionLostError
from toolchain.tuning.boards.planned import (
    CandidatePlan,
    Planner,
    PlanRequest,
    measure_plans,
)
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans.answers import PossibleTimes

POSSIBLE = PossibleTimes(samples=1, least_ms=0.5, most_s=10.0)
TARGET: Any = SimpleNamespace(computes_on="cpu", threads=1, cpu="", requires=(), rates=None)
TASK: Any = SimpleNamespace(id="c0ffee", name="doubled", workload="c0ffee", flops=4)
KEY: Any = SimpleNamespace(triple="x86_64-", cpu="", level="", threads=1, device="")
VECTOR = Parameter((4,), "float32")
LINE = {
    "failure": None,
    "ms": [1.0],
    "message": "",
    "device": "",
    "governor": None,
    "temperature_c": None,
    "conditions": {"clock_mhz": None, "temperature_c": None, "others": None},
}


class FakeSession:
    """A session whose function answers what a test wants."""

    def __init__(self, answer: Callable[[str], object]) -> None:
        self.uploads: list[str] = []
        self._answer = answer

    def get_function(self, name: str) -> Callable[[str], object]:
        assert name == "edge.measure"
        return self._answer

    def upload(self, _path: str, name: str) -> None:
        self.uploads.append(name)


def answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], object]) -> FakeSession:
    session = FakeSession(answer)
    monkeypatch.setattr(planned, "connect", lambda *_arguments: session)
    return session


def request_of(*names: str) -> PlanRequest:
    plans = [
        CandidatePlan(name * 64, name, {"shared": Path("shared"), name: Path(name)}, POSSIBLE)
        for name in names
    ]
    grant: Any = None
    return PlanRequest(grant, "class@far", tuple(plans), "cpu", 60.0)


def line(name: str, **other: object) -> str:
    return json.dumps({**LINE, "candidate": name * 64, **other}) + "\n"


def test_files_are_sent_once_and_failures_cost_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(name: str) -> str:
        return line(name, failure="runtime", ms=[], message="it crashed") if name == "b" else line(name)

    session = answering(monkeypatch, answer)
    results = measure_plans(request_of("a", "b", "c"))
    assert [result.failure for result in results] == [None, "runtime", None]
    assert results[0].run_ms == (1.0,)
    assert session.uploads == ["shared", "a", "b", "c"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (5, "it is 5, not text"),
        ("", "Invalid JSON"),
        (line("b"), "it is about candidate bbbbbbbbbbbb, not aaaaaaaaaaaa"),
        (line("a", ms=[0.1]), "0.1 ms, but hardware of its kind needs at least 0.5 ms"),
        (line("a", ms=[11e3]), "11.0 s in a process that had 10 s"),
        (line("a", ms=[1.0, 1.0]), "it has 2 times, not 1"),
        (line("a", failure="timeout"), "it has 1 time, not 0"),
        (line("a", failure="build", ms=[]), "failure is 'build'"),
    ],
)
def test_answers_that_cannot_be_true_are_refused(
    answer: object, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, lambda _plan: answer)
    with pytest.raises(CheckError, match=r"board far: .* cannot be right: ") as caught:
        measure_plans(request_of("a"))
    assert why in caught.value.message


def failing(error: Exception, after: int = 0) -> Callable[[str], object]:
    answers: list[str] = []

    def answer(name: str) -> str:
        if len(answers) == after:
            raise error
        answers.append(line(name))
        return answers[-1]

    return answer


def test_errors_of_a_session_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = tvm.error.RPCSessionTimeoutError("the session's 60 s have passed while it waited for the board")
    answering(monkeypatch, failing(waited))
    with pytest.raises(BoardBusyError):
        measure_plans(request_of("a"))
    answering(monkeypatch, failing(waited, after=1))
    assert [each.failure for each in measure_plans(request_of("a", "b"))] == [None, "timeout"]
    lost = tvm.error.InternalError("Check failed: code == kReturn: kShutdown")
    answering(monkeypatch, failing(lost))
    with pytest.raises(SessionLostError):
        measure_plans(request_of("a"))
    answering(monkeypatch, failing(tvm.error.RPCError("no space left")))
    (result,) = measure_plans(request_of("a"))
    assert (result.failure, result.message) == ("upload", "no space left")


def test_no_plan_is_begun_that_the_session_has_no_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, line)
    assert len(measure_plans(replace(request_of("a", "b"), timeout_s=9.0))) == 1


def case_of(folder: Path) -> Case:
    case = write_case(folder, "case", {0: np.arange(4, dtype=np.float32)})
    return replace(case, drawn={0: Draw("float32", (4,), 7)})


def test_a_plan_names_its_files_and_drawn_operands_need_none(tmp_path: Path) -> None:
    case = case_of(tmp_path)
    library = tmp_path / "library.so"
    library.write_bytes(b"code")
    built = BuiltCandidate(Candidate(Entry("k", "p", "d"), None, (VECTOR, VECTOR), 1), library)
    case.expect([np.arange(4, dtype=np.float32)])
    planner = Planner(tmp_path, TARGET)
    how = TuneOptions(number=1, repeat=3, min_repeat_ms=0)
    made = planner.plan(TASK, KEY, built, [case], how, 2.5)
    words = [text.split(" ") for text in made.text.splitlines()]
    assert ["drawn", "float32", "4", "7", "0", "0", "-"] in words
    (candidate,) = [each for each in words if each[0] == "candidate"]
    assert (candidate[1], candidate[3], made.possible.most_s) == (made.candidate, "2.500", 2.5)
    assert made.possible.samples == 3
    named = {each[1]: int(each[2]) for each in words if each[0] == "member"}
    assert {digest: path.stat().st_size for digest, path in made.members.items()} == named
    assert len(named) == 2, "the library, and what is expected"
    assert planner.plan(TASK, KEY, built, [case], how, 2.5) == made

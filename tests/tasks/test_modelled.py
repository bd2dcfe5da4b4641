"""A runner that asks a model: candidates are built as they are, and finalists alone are checked."""

from __future__ import annotations

from typing import Any, cast

import pytest

from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.evaluator import ModelledRunner
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result

TASK = cast(Task, None)  # the runner asks nothing of it


class Weighing(ModelledRunner):
    """A candidate takes a millisecond for each letter; a checked one must not be empty."""

    def result(self, candidate: Candidate, *, checked: bool) -> Result:
        if checked and not candidate.entry.payload:
            return Result(failure="wrong result", message="nothing", modelled=True)
        return Result((float(len(candidate.entry.payload)),), modelled=True)


def candidates(*payloads: str) -> list[Candidate]:
    return [Candidate(Entry("toy", payload, ""), cast(Any, None), (), 1) for payload in payloads]


def test_candidates_are_asked_in_their_order_and_checked_only_by_check() -> None:
    runner = Weighing()
    made = runner.build(candidates("abc", "", "a"))
    assert all(built.library is None and built.failure is None for built in made)
    assert [result.run_ms for result in runner.run(TASK, made)] == [(3.0,), (0.0,), (1.0,)]
    assert [result.failure for result in runner.check(TASK, made)] == [None, "wrong result", None]
    assert runner.compare(TASK, made, 3) == [runner.run(TASK, made)] * 3


def test_the_runner_is_no_board() -> None:
    runner = Weighing()
    (probed,) = runner.probe(TASK, runner.build(candidates("abc"))[0])
    assert probed.failure is None and probed.modelled and not probed.run_ms
    assert runner.names == () and runner.lanes == 1 and runner.in_use_s == {}


def test_a_runner_without_a_model_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ModelledRunner()  # type: ignore[abstract]

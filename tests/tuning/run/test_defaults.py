"""Defaults come first, and leave time for the search."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

from tests.tuning.toy_run import TASK, Told, toy_run
from toolchain.records.store import RecordStore
from toolchain.tasks.task import Task
from toolchain.tuning.allowance import Allowance
from toolchain.tuning.events import Event, LeftOut, Notice
from toolchain.tuning.run import tune as defaults
from toolchain.tuning.run.tune import measured_defaults
from toolchain.tuning.task_run import BadDefaultError


class Run:
    """Stands for a task's run; to begin it takes no time."""

    def __init__(self, task: Task, *_others: object) -> None:
        self.task = task

    def begin(self) -> None:
        pass


@pytest.mark.parametrize(
    ("allowed", "begun"),
    [(None, 3), (600.0, 3), (0.0, 1)],
)
def test_tasks_that_no_time_is_left_for_are_left_out_but_for_the_first(
    store: RecordStore, allowed: float | None, begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = []
    monkeypatch.setattr(defaults, "TaskRun", Run)
    with toy_run(store, Told({})) as run:
        object.__setattr__(run.context, "listener", events.append)
        until = None if allowed is None else Allowance(time.monotonic() + allowed, firm=True)
        made = measured_defaults([TASK] * 3, [run.space] * 3, [run.tuner] * 3, run.context, until)
    assert len(made) == begun
    if begun == 3:
        assert events == []
        return
    left, said = events
    assert left == LeftOut((TASK, TASK)) and isinstance(said, Notice)
    assert said.text.startswith("2 tasks are left out of this run, the last of 3: --time was too short")
    assert f"--tasks {TASK.id},{TASK.id}" in said.text
    assert "Builds still use what earlier runs measured for 2 of them." in said.text


def test_a_task_whose_default_is_wrong_is_left_out_and_said(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = BadDefaultError(
        "the default of task bad0 (exp) fails on board b: wrong result", "see --show bad0"
    )
    events: list[Event] = []
    bad = dataclasses.replace(TASK, name="exp")

    def begin(begun: Run) -> None:
        if begun.task is bad:
            raise wrong

    monkeypatch.setattr(Run, "begin", begin)
    monkeypatch.setattr(defaults, "TaskRun", Run)
    with toy_run(store, Told({})) as run:
        object.__setattr__(run.context, "listener", events.append)
        spaces, tuners = [run.space] * 3, [run.tuner] * 3
        begun_of: Any = measured_defaults([TASK, bad, TASK], spaces, tuners, run.context, None)
        assert [each.task for each in begun_of] == [TASK, TASK]
        left, said = events
        assert left == LeftOut((bad,)) and isinstance(said, Notice)
        assert "task bad0 (exp)" in said.text and "the others are tuned" in said.text
        assert "--show bad0" in said.text
        with pytest.raises(BadDefaultError, match="bad0"):
            measured_defaults([bad], spaces[:1], tuners[:1], run.context, None)

"""What is printed before and after a run."""

from __future__ import annotations

import pytest

from tests.cli.tuning.runs import CONV, DENSE
from toolchain.cli.tuning.tables import duration, show_plan, show_result
from toolchain.tuning.boards.pace import Pace
from toolchain.tuning.result import TuneResult
from toolchain.tuning.run.plan import PlannedTask, RunPlan


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3570, "1 h 0 min"),
        (5400, "1 h 30 min"),
        (90000, "25 h 0 min"),
    ],
)
def test_times_are_said_as_people_do(seconds: float, said: str) -> None:
    assert duration(seconds) == said


TASKS = [PlannedTask(CONV, None, 12), PlannedTask(DENSE, 56, 1)]


@pytest.mark.parametrize(
    ("limit_s", "pace", "said"),
    [
        (
            None,
            Pace(2.0, "2.0 s a trial"),
            "64 trials of 2 tasks on b1, b2: about 2 min (an estimate: 2.0 s a trial)",
        ),
        (None, Pace(90.0, "each has 90 s", most=True), ": at most 1 h 36 min (each has 90 s)"),
        (60.0, Pace(2.0, "2 s each"), ": about 1 min (the limit of --time)"),
    ],
)
def test_a_plan_says_how_long_and_how_that_is_known(
    capsys: pytest.CaptureFixture[str], limit_s: float | None, pace: Pace, said: str
) -> None:
    show_plan(RunPlan(TASKS, ("b1", "b2"), 64, limit_s, pace))
    shown = capsys.readouterr().out
    assert said in shown and "nothing was measured" in shown
    header, conv, dense, *_ = shown.splitlines()
    assert header.split() == ["ID", "WEIGHT", "WORK", "WAYS", "MEASURED", "NAME"]
    assert conv.split()[4:] == ["no", "end", "12", "fused_conv2d"]
    assert dense.split()[4:] == ["56", "1", "fused_dense"]


@pytest.mark.parametrize(("trials", "warned"), [(0, False), (3, True)])
def test_trials_beside_other_processes_are_warned_of(
    capsys: pytest.CaptureFixture[str], trials: int, *, warned: bool
) -> None:
    result = TuneResult([], 1.0, beside_others=trials)
    show_result(result)
    said = "warning: other processes computed on the device during 3 of these trials"
    assert (said in capsys.readouterr().out) == warned
    assert result.to_json()["beside_others"] == trials

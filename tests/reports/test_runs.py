"""A tuning run, read back from its records."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.reports.tuned import NAMES, WEIGHTS, records
from toolchain.errors import UsageError
from toolchain.reports.runs import read_run

EARLY, LATE = "aa" * 16, "ab" * 16


def test_a_run_has_its_tasks_trials_and_failures() -> None:
    stored = records(tasks=3, trials=12)
    run = read_run(stored, NAMES)
    trials = [record for record in stored if record.provenance.trial is not None and not record.confirmed]
    assert run.trials == len(trials) == 36
    assert sum(run.failures.values()) == sum(record.failure is not None for record in trials) > 0
    assert [task.name for task in run.tasks] == [f"fused_conv2d{place}_add_relu" for place in range(3)]
    assert [task.default_ms for task in run.tasks] == [8.0, 4.0, 8 / 3]
    assert all(task.confirmed and task.chosen_ms <= task.default_ms for task in run.tasks if task.chosen_ms)
    assert run.begun.startswith("2026-03-09T10:00:00") and run.seconds > 0
    assert run.tasks[0].trials[0].seconds > 0 and run.tasks[0].weight is None


def test_weights_are_those_of_the_network_where_they_are_known() -> None:
    assert [task.weight for task in read_run(records(), NAMES, weights=WEIGHTS).tasks] == [1, 2, 3]


def test_compared_times_are_of_one_kind() -> None:
    """A choice is confirmed in the network, where nothing takes as long as it takes alone."""
    stored = [replace(r, run_ms=(99.0,)) if r.confirmed else r for r in records(tasks=2, trials=24)]
    for task in read_run(stored, NAMES).tasks:
        alone = [trial.ms for trial in task.trials if trial.ms] + [task.default_ms or 0]
        assert task.after_ms in alone and task.before_ms == task.default_ms
    compared = {workload: (100.0, 99.0) for workload in WEIGHTS}
    task, _other = read_run(stored, NAMES, compared=compared).tasks
    assert (task.before_ms, task.after_ms, task.default_ms) == (100.0, 99.0, 8.0)


def test_earlier_runs_choice_has_no_time_of_this_run() -> None:
    stored = [r for r in records(tasks=1, trials=24) if r.provenance.trial is None or r.confirmed]
    (task,) = read_run(stored, NAMES).tasks
    assert task.confirmed and task.choice == "cpu" and task.after_ms is None


def test_default_is_the_last_run() -> None:
    stored = [*records(EARLY), *records(LATE, later=timedelta(hours=1))]
    assert read_run(stored, NAMES).id == LATE
    assert read_run(stored, NAMES, "aa").id == EARLY


@pytest.mark.parametrize(
    ("named", "says"), [("a", "means several runs"), ("ff", "is no run of these records")]
)
def test_unknown_or_ambiguous_run_lists_the_runs(named: str, says: str) -> None:
    stored = [*records(EARLY), *records(LATE, later=timedelta(hours=1))]
    with pytest.raises(UsageError, match=f"--run {named}: {says}") as refused:
        read_run(stored, NAMES, named)
    assert f"{LATE[:8]} (2026-03-09T11:" in refused.value.hint


def test_missing_records_name_the_command_that_makes_them() -> None:
    with pytest.raises(UsageError, match="no records") as refused:
        read_run([], NAMES)
    assert "toolchain tune" in refused.value.hint


def test_interrupted_run_uses_the_best_so_far() -> None:
    run = read_run(records(cut=True), NAMES)
    for task in run.tasks:
        times = [trial.ms for trial in task.trials if trial.ms] + [task.default_ms or 0]
        assert task.chosen_ms == min(times) and not task.confirmed


def test_default_choice_is_named() -> None:
    stored = records(tasks=1, trials=0)
    assert [task.choice for task in read_run(stored, NAMES).tasks] == ["default"]
    assert {task.choice for task in read_run(records(tasks=1, trials=40), NAMES).tasks} == {"cpu"}


def test_boards_have_counts_and_temperatures() -> None:
    run = read_run(records(boards=("b1", "b2", "b3")), NAMES)
    assert [board.name for board in run.boards] == ["b1", "b2", "b3"]
    assert [board.trials for board in run.boards] == [12, 12, 12]
    assert all(
        board.coolest_c and board.hottest_c and board.coolest_c < board.hottest_c for board in run.boards
    )
    assert run.boards[0].governors == ("performance",)


def test_boards_without_temperature() -> None:
    stored = [replace(r, provenance=replace(r.provenance, temperature_c=None)) for r in records()]
    assert {board.coolest_c for board in read_run(stored, NAMES).boards} == {None}


def test_unnamed_function_is_named_by_its_hash() -> None:
    assert [task.name for task in read_run(records(tasks=1), {}).tasks] == ["1a2b3c4d00000000"]

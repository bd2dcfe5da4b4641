"""Measures the defaults of a run's tasks before the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolchain.quantities import counted
from toolchain.tasks.space import Space
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Tuner
from toolchain.tuning.allowance import Allowance
from toolchain.tuning.context import RunContext
from toolchain.tuning.events import LeftOut, Notice
from toolchain.tuning.task_run import BadDefaultError, TaskRun


def measured_defaults(
    tasks: Sequence[Task],
    spaces: Sequence[Space[Any]],
    tuners: Sequence[Tuner[Any]],
    context: RunContext,
    allowed: Allowance | None,
) -> list[TaskRun[Any]]:
    """Begin the tasks in their order, which measures the default of each.

    If the code of a default is at fault, its task is left out with a notice, unless no other task is left.

    Parameters
    ----------
    allowed
        Time limit: later tasks are left out, but never the first. None: no limit.

    Raises
    ------
    ToolchainError
        A default does not run, or the code of every default is at fault.
    """
    runs: list[TaskRun[Any]] = []
    faulty: list[BadDefaultError] = []
    for task, space, tuner in zip(tasks, spaces, tuners, strict=True):
        if runs and allowed is not None and allowed.up:
            break
        run = TaskRun(task, space, tuner, context)
        try:
            run.begin()
        except BadDefaultError as error:
            faulty.append(error)
            context.listener(LeftOut((task,)))
            context.listener(Notice(_left_as_it_is(error)))
        else:
            runs.append(run)
    if faulty and not runs:
        raise faulty[0]
    if left := tuple(tasks[len(runs) + len(faulty) :]):
        context.listener(LeftOut(left))
        context.listener(Notice(_left_out(left, len(tasks), context)))
    return runs


def _left_as_it_is(error: BadDefaultError) -> str:
    return (
        f"{error.message}. This task is left out, and the others are tuned. A build for this board would use "
        f"the same code: {error.hint}"
    )


def _left_out(left: Sequence[Task], count: int, context: RunContext) -> str:
    ids = ",".join(task.id for task in left)
    measured = sum(bool(context.store.measured(context.key_of(task.workload))) for task in left)
    kept = f" Builds still use what earlier runs measured for {measured} of them." if measured else ""
    return (
        f"{counted(len(left), 'task is', 'tasks are')} left out of this run, the last of {count}: --time was "
        f"too short to measure their defaults first.{kept} To tune them, give more --time, or name them: "
        f"--tasks {ids}"
    )

"""The defaults of a run's tasks: the mark that is set before the search."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tasks.space import Space
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Tuner
from toolchain.tuning.allowance import Allowance
from toolchain.tuning.events import LeftOut, Notice
from toolchain.tuning.task_run import RunContext, TaskRun


def measured_defaults(
    tasks: Sequence[Task],
    spaces: Sequence[Space],
    tuners: Sequence[Tuner],
    context: RunContext,
    allowed: Allowance | None,
) -> list[TaskRun]:
    """Begin with the tasks in their order, which measures the default of each.

    Parameters
    ----------
    allowed
        Tasks are left out that had to begin later, but for the first; None: none is.

    Raises
    ------
    ToolchainError
        A default does not run.
    """
    runs: list[TaskRun] = []
    for task, space, tuner in zip(tasks, spaces, tuners, strict=True):
        if runs and allowed is not None and allowed.up:
            break
        runs.append(TaskRun(task, space, tuner, context))
    if left := tuple(tasks[len(runs) :]):
        context.listener(LeftOut(left))
        context.listener(Notice(_left_out(left, len(tasks))))
    return runs


def _left_out(left: Sequence[Task], count: int) -> str:
    ids = ",".join(task.id for task in left)
    return (
        f"{len(left)} of {count} tasks are not tuned, the last ones: --time leaves no room to measure their "
        f"defaults. Give it more, or tune them by themselves: --tasks {ids}"
    )

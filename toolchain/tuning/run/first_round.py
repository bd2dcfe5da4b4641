"""A run in which nothing works should not go on for hours."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.errors import ToolchainError
from toolchain.tuning.task_run import TaskRun


def check_first_round(runs: Sequence[TaskRun]) -> None:
    """Refuse to go on after as many batches as there are tasks, if not one candidate ran.

    Raises
    ------
    ToolchainError
        Says why the first failed.
    """
    trials = sum(run.trials for run in runs)
    failed = sum(run.failures.total() for run in runs)
    if trials and trials == failed:
        first = next(run for run in runs if run.first_failure)
        raise ToolchainError(
            f"all {trials} candidates of the first round failed; the first, of task {first.task.id} "
            f"({first.task.name}): {first.first_failure}",
            "`toolchain board show` checks the board; --timeout S gives it more time",
        )

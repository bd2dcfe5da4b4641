"""Explains why a search ended before it had used all trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolchain.quantities import counted
from toolchain.tuning.allowance import Allowance
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.task_run import TaskRun


def why_ended_early(runs: Sequence[TaskRun[Any]], options: TuneOptions, allowed: Allowance | None) -> str:
    """Return the reason as a sentence for the user; empty if all trials were used."""
    used = sum(run.trials for run in runs)
    if used >= options.trials:
        return ""
    said = f"the search ended after {used} of {counted(options.trials, 'trial')}"
    if allowed is not None and allowed.up:
        return f"{said}: the rest of --time is for comparing the fastest again"
    if all(run.exhausted for run in runs):
        return f"{said}: every way to compute these tasks has been measured, in this run or before"
    if options.early_stopping is not None:
        return f"{said}: no task got faster by 1 % in its last {options.early_stopping} (--early-stopping)"
    return f"{said}: no tuner has anything left to try"

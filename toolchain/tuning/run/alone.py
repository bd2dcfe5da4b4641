"""Compares the finalists of each task alone, if they cannot be judged in the network."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from toolchain.processes.interrupts import let_signals_end_waits
from toolchain.tuning.allowance import Allowance
from toolchain.tuning.events import Listener, Notice
from toolchain.tuning.judging.confirm import LEAST_ROUNDS, ROUNDS, Finalist, confirm
from toolchain.tuning.result import TunedTask
from toolchain.tuning.task_run import TaskRun

NOT_COMPARED = (
    "--time is over before the fastest were compared again, so builds use what an earlier run confirmed, or "
    "else the fastest trial; run the same command with more --time, or without it, to compare them"
)
_ALL_FAILED = (
    "its default and all finalists failed when they were compared; builds use what was measured before. Run "
    "it again"
)


class Alone:
    """The comparison of all tasks' finalists.

    Parameters
    ----------
    checks_s
        Seconds that it took to check every finalist but the defaults; a round of the comparison takes about
        as long for each finalist.
    """

    def __init__(
        self,
        runs: Sequence[TaskRun[Any]],
        standing: Sequence[Sequence[Finalist[Any]]],
        allowed: Allowance,
        listener: Listener,
        checks_s: float,
    ) -> None:
        self._runs, self._standing, self._allowed, self._listener = runs, standing, allowed, listener
        finalists = sum(len(own) for own in standing)
        self.round_s = checks_s * finalists / max(1, finalists - len(standing))
        """Predicted seconds of one round."""

    def compared(self) -> list[TunedTask]:
        """Compare in as many rounds as there is time for, store the choices, and return the tasks."""
        enough = range(ROUNDS, LEAST_ROUNDS - 1, -1)
        rounds = next((most for most in enough if self._allowed.fits(most * self.round_s)), 0)
        if rounds == 0:
            self._listener(Notice(NOT_COMPARED))
            return [run.unsettled() for run in self._runs]
        runner = self._runs[0].context.evaluator.runner
        let_signals_end_waits()

        def keep(run: TaskRun[Any], own: Sequence[Finalist[Any]]) -> TunedTask:
            confirmed = confirm(run.task, own, runner, rounds)
            if confirmed:
                return run.settle(own, confirmed)
            self._listener(Notice(f"task {run.task.id} ({run.task.name}): {_ALL_FAILED}"))
            return run.unsettled()

        with ThreadPoolExecutor(runner.lanes) as threads:
            return list(threads.map(keep, self._runs, self._standing))

"""Runs the search: while one batch is measured, the next one is built, and a tuner proposes another.

Each batch has a thread from its proposal to its results, in which it waits for earlier batches: tuners run
one at a time; builders and boards serve batches in the order of arrival.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.processes.interrupts import let_signals_end_waits, uninterrupted
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tasks.tuner import Result
from toolchain.tuning.allowance import Allowance
from toolchain.tuning.events import Notice
from toolchain.tuning.schedulers.scheduler import Scheduler, Turn
from toolchain.tuning.task_run import Proposal, TaskRun

_DEPTH = 3
"""Batches under way: one is measured, one built, one proposed. With more, tuners would know fewer results."""

_BATCH = 8  # number of points that a tuner proposes before it learns from them
_POLL_S = 0.5  # TVM may disable signals during a wait; see `let_signals_end_waits`

_INTERRUPTED = "interrupted: finishing what is being built or measured; press Ctrl-C again to end at once"


@dataclass(frozen=True)
class _Batch:
    """The results of a turn; without proposals if nothing was left to try, or the search ended before."""

    turn: Turn
    proposals: Sequence[Proposal[Any]]
    measured: Sequence[tuple[BuiltCandidate, Result]]


class Pipeline:
    """Carries out the turns of a scheduler. `pipeline` creates it and owns its threads."""

    def __init__(self, batches: ThreadPoolExecutor, search: ThreadPoolExecutor) -> None:
        self._batches, self._search = batches, search
        self._under_way: set[Future[_Batch | None]] = set()
        self._out = 0  # number of turns under way
        self._finished = 0
        self._ending = threading.Event()
        self._allowed: Allowance | None = None

    def run(
        self, runs: Sequence[TaskRun[Any]], scheduler: Scheduler, allowed: Allowance | None = None
    ) -> None:
        """Search until the scheduler has no more turns.

        After an interrupt or an error, nothing new begins; batches that are being built or measured are
        finished and stored. A second interrupt ends those, too.

        Parameters
        ----------
        allowed
            Time limit after which no measurement begins, not even of batches under way; None: no limit.

        Raises
        ------
        KeyboardInterrupt
            The user interrupted the search.
        ToolchainError
            All candidates of the first round failed; or the first error of a tuner, a builder or a runner.
        """
        self._allowed = allowed
        ended: BaseException | None = None
        while True:
            try:
                if ended is None:
                    with uninterrupted():
                        self._begin(runs, scheduler)
                if not self._under_way:
                    break
                for future in self._done():
                    with uninterrupted():
                        self._finish(future, runs, scheduler)
            except BaseException as error:
                self._ending.set()
                if isinstance(error, KeyboardInterrupt):
                    if ended is not None:
                        raise
                    runs[0].context.listener(Notice(_INTERRUPTED))
                ended = ended or error
        if ended is not None:
            raise ended
        if self._finished < len(runs):
            check_first_round(runs)

    def end(self) -> None:
        """Let nothing new begin."""
        self._ending.set()

    def _begin(self, runs: Sequence[TaskRun[Any]], scheduler: Scheduler) -> None:
        batch = max(_BATCH, runs[0].context.evaluator.runner.lanes)
        while self._out < _DEPTH and not self._over():
            turn = scheduler.next(batch)
            if turn is None:
                return
            self._out += 1
            self._under_way.add(self._batches.submit(self._carry_out, turn, runs[turn.task]))

    def _carry_out(self, turn: Turn, run: TaskRun[Any]) -> _Batch:
        proposals = self._search.submit(self._propose, turn, run).result()
        if not proposals or self._over():
            return _Batch(turn, (), ())
        measured = run.measure(proposals, self._over)
        return _Batch(turn, proposals[: len(measured)], measured)

    def _propose(self, turn: Turn, run: TaskRun[Any]) -> Sequence[Proposal[Any]]:
        return () if self._over() else run.propose(turn.trials)

    def _over(self) -> bool:
        """Whether nothing new may begin."""
        return self._ending.is_set() or (self._allowed is not None and self._allowed.up)

    def _done(self) -> set[Future[_Batch | None]]:
        """Wait until at least one batch is done; return those that are."""
        while True:
            let_signals_end_waits()
            done, _others = wait(self._under_way, _POLL_S, FIRST_COMPLETED)
            if done:
                return done

    def _finish(
        self, future: Future[_Batch | None], runs: Sequence[TaskRun[Any]], scheduler: Scheduler
    ) -> None:
        self._under_way.discard(future)
        batch = future.result()
        if batch is None:
            return
        run = runs[batch.turn.task]
        run.record(batch.proposals, batch.measured)
        scheduler.report(batch.turn, len(batch.proposals), run.best_ms)
        self._out -= 1
        self._finished += 1
        if batch.proposals:
            learned: Future[_Batch | None] = self._search.submit(run.learn, batch.proposals, batch.measured)
            self._under_way.add(learned)
        if self._finished == len(runs):
            check_first_round(runs)


@contextmanager
def pipeline() -> Iterator[Pipeline]:
    """Yield a pipeline and end its threads afterwards.

    Close builders and boards before the block ends, which wakes the threads that wait for them.
    """
    with (
        ThreadPoolExecutor(1, "search") as search,
        ThreadPoolExecutor(_DEPTH, "batch") as batches,
    ):
        made = Pipeline(batches, search)
        try:
            yield made
        finally:
            made.end()


def check_first_round(runs: Sequence[TaskRun[Any]]) -> None:
    """Check that at least one candidate of the first batches ran.

    Raises
    ------
    ToolchainError
        All failed; the message says why the first did.
    """
    trials = sum(run.trials for run in runs)
    failed = sum(run.failures.total() for run in runs)
    if trials and trials == failed:
        first = next(run for run in runs if run.first_failure)
        raise ToolchainError(
            f"every candidate of the first round failed, {trials} in all; the first, of task {first.task.id} "
            f"({first.task.name}): {first.first_failure}",
            "`toolchain board show` checks the board; --timeout S gives it more time",
        )

"""Measures candidates on boards, through the lab."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import takewhile

from toolchain.boards.board import Board
from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.processes.interrupts import let_signals_end_waits
from toolchain.processes.worker import WorkerDiedError
from toolchain.rpc.control import who_is_silent
from toolchain.rpc.lab import PORT_VARIABLE, Lab, join
from toolchain.rpc.session import wait_for_server
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Case, record_key
from toolchain.tasks.evaluator import BuiltCandidate, Evaluator
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.devices import check_driver, device_there, told
from toolchain.tuning.boards.measure import BoardBusyError, SessionLostError, measure, ready, requested
from toolchain.tuning.boards.pace import trial_limit_s
from toolchain.tuning.boards.planned import (
    SESSION_S,
    CandidatePlan,
    Planner,
    PlanRequest,
    is_switched_on,
    measure_plans,
)
from toolchain.tuning.boards.pool import BUSY_S, GRACE_S, START_S, BoardLostError, BoardPool, PooledBoard
from toolchain.tuning.boards.revival import Revival
from toolchain.tuning.boards.speed import IN_A_ROW, REPEATS, repeat_ms
from toolchain.tuning.boards.watch import Watch
from toolchain.tuning.builders.builder import LibraryBuilder
from toolchain.tuning.builders.choice import compilers_for
from toolchain.tuning.events import Listener, Notice, StepBegan
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans.answers import possible_times

# Least number of candidates for one board. A session costs 25 ms on this host, more over SSH. Boards that get
# none measure other batches, of which several are under way.
_SHARE = 2
_SHARED = 1.5  # deadline of a session with several candidates, in deadlines of one candidate
_OTHERS_S = 900.0  # how long others may measure on a board while a candidate waits for its turn
# Failures that a board may cause by going away: a plan's candidates have processes of their own.
_BY_CALLS, _BY_PLANS = ("upload", "runtime"), ("upload",)
_ATTEMPTS = 3  # a candidate fails after boards went away under it this many times


class BoardRunner:
    """Measures on boards, one worker process for each; see `tasks.evaluator.Runner`.

    A board that hangs does not delay the others; a board whose measurements mislead is dropped. The candidate
    of `probe` becomes the reference kernel that shows changes of a board's speed.

    Parameters
    ----------
    planner
        Writes plans for the boards; None: this host runs candidates there call by call, and compares here.
    """

    def __init__(
        self,
        boards: Sequence[Board],
        lab: Lab,
        target: BoardTarget,
        options: TuneOptions,
        listener: Listener,
        planner: Planner | None = None,
    ) -> None:
        self._lab, self._target, self._options, self._planner = lab, target, options, planner
        self.names = tuple(board.name for board in boards)
        self._used_s = dict.fromkeys(self.names, 0.0)

        def notice(text: str) -> None:
            listener(Notice(text))

        # A container has neither the user's programs nor the way to the boards.
        self._revival = None if os.environ.get(PORT_VARIABLE) else Revival(listener)
        self.pool = BoardPool(boards, lab, notice, self._revival)
        self._watch = Watch(self.pool, self._read, self._used_s, notice)
        self._reference: tuple[Task, BuiltCandidate] | None = None
        self._threads = ThreadPoolExecutor(max_workers=len(boards))
        self._cases: dict[str, tuple[Case, ...]] = {}

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        """Set the cases with which the candidates of a task are compared."""
        self._cases[task.workload] = tuple(cases)

    @property
    def lanes(self) -> int:
        """Number of boards that are not put aside."""
        return sum(not pooled.aside for pooled in self.pool.all)

    @property
    def in_use_s(self) -> Mapping[str, float]:
        """Seconds for which each board had a session so far, by its name."""
        return dict(self._used_s)

    @property
    def power_cycles(self) -> Mapping[str, int]:
        """Number of times that each board was power-cycled, if it was."""
        return self._revival.counts if self._revival else {}

    def run(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        """Measure candidates of one task on all boards; return their results in the same order.

        A candidate whose board goes away is measured again, on another board if there is one.
        """
        let_signals_end_waits()
        shares = self._threads.map(
            lambda share: self._measure_anywhere(task, share), _shares(built, self.lanes)
        )
        return [result for results in shares for result in results]

    def check(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        """Compute every case with each candidate, then measure it; return the results in the same order."""
        let_signals_end_waits()
        shares = [[item] for item in built]
        measured = self._threads.map(lambda share: self._measure_anywhere(task, share, every=True), shares)
        return [result for (result,) in measured]

    def probe(self, task: Task, built: BuiltCandidate) -> list[Result]:
        """Measure a known-good candidate on every board; boards that are away are left out for a while."""
        let_signals_end_waits()
        if built.library is None:
            return [Result(failure=built.failure, message=built.message)] * len(self.names)
        self._reference = task, built
        results = list(self._threads.map(self._first_reading, self.pool.all))
        if any(result.failure and result.failure != "upload" for result in results):
            return results  # a candidate that fails cannot be the reference
        for _ in range(IN_A_ROW):
            there = [pooled for pooled in self.pool.all if pooled.away is None and not pooled.aside]
            for pooled in there:
                self._watch.judge(pooled)
            doubtful = [pooled for pooled in there if pooled.away is None and self._watch.due(pooled)]
            list(self._threads.map(self._first_reading, doubtful))
        return results

    def _first_reading(self, pooled: PooledBoard) -> Result:
        try:
            return self._watch.read(pooled)
        except BoardLostError as error:
            self.pool.leave_out(pooled, str(error))
            return Result(failure="upload", message=str(error), board=pooled.board.name)

    def _read(self, pooled: PooledBoard) -> Result:
        """Time the reference kernel."""
        if self._reference is None:
            raise AssertionError("no kernel was probed")
        task, built = self._reference
        least_ms = repeat_ms(self._options.min_repeat_ms)
        how = replace(self._options, number=1, repeat=REPEATS, min_repeat_ms=least_ms)
        (result,) = self._session(pooled, task, [built], self._cases[task.workload], how)
        return result

    def compare(self, task: Task, built: Sequence[BuiltCandidate], rounds: int) -> list[list[Result]]:
        """Time the candidates alternately, all on one board; return the results of each round.

        Each measurement has its own session, so that candidates cannot affect each other.
        """
        lost = ""
        for _ in range(_ATTEMPTS):
            with suppress(BoardLostError), self.pool.take() as pooled:
                if not self._fit(pooled):
                    lost = f"board {pooled.board.name} is left out"
                    continue
                try:
                    return [[self._alone(pooled, task, item) for item in built] for _ in range(rounds)]
                except BoardLostError as error:
                    lost = f"board {pooled.board.name}: {error}"
                    raise
        raise ToolchainError(
            f"the finalists of task {task.id} ({task.name}) could not be compared: {lost}",
            "`toolchain lab status` shows the boards; what was measured is kept: run it again",
        )

    def revive(self, board: str) -> bool:
        """Wait for a board that went silent, and power-cycle it if that is allowed; return if it answers."""
        (silent,) = (pooled.board for pooled in self.pool.all if pooled.board.name == board)
        return self._revival is not None and self._revival.revive(silent)

    def close(self) -> None:
        """End the worker processes that talk to boards."""
        self._threads.shutdown(wait=False, cancel_futures=True)  # cancels what has not begun
        self.pool.close()
        self._threads.shutdown(wait=True)

    def _measure_anywhere(
        self, task: Task, built: Sequence[BuiltCandidate], *, every: bool = False
    ) -> list[Result]:
        results: list[Result] = []
        together = len(built)  # number of candidates in the next session
        losses = 0  # how many boards went away under the next candidate
        while len(results) < len(built):
            left = built[len(results) :]
            if left[0].library is None:
                results.append(Result(failure=left[0].failure, message=left[0].message))
                continue
            with suppress(BoardLostError), self.pool.take() as pooled:
                if not self._fit(pooled):
                    continue
                try:
                    measured = self._measure(pooled, task, _of_one_library(left[:together]), every=every)
                except BoardLostError as error:
                    together = 1  # one of them may have crashed the board
                    losses = 0 if self._watch.lost(pooled, str(error)) else losses + 1
                    if losses == _ATTEMPTS:
                        name = pooled.board.name
                        message = f"a board went away {_ATTEMPTS} times; the last was {name}: {error}"
                        results.append(Result(failure="upload", message=message, board=name))
                        losses = 0
                    raise
                together = together if measured else 1
                losses = 0
                results.extend(measured)
        return results

    def _fit(self, pooled: PooledBoard) -> bool:
        """Whether a board that was taken may be used now."""
        return self._reference is None or self._watch.fit(pooled)

    def _alone(self, pooled: PooledBoard, task: Task, built: BuiltCandidate) -> Result:
        if built.library is None:
            return Result(failure=built.failure, message=built.message)
        (result,) = self._measure(pooled, task, [built], every=False)
        return result

    def _measure(
        self, pooled: PooledBoard, task: Task, built: Sequence[BuiltCandidate], *, every: bool
    ) -> list[Result]:
        """Measure candidates of one library in one session.

        Without plans a failure is recorded only for the first candidate: a later one's may be caused by an
        earlier one, since all have one process.

        Returns
        -------
        list
            Results of the first candidates; empty if one of several ended the worker and it is unknown which.
        """
        cases = self._cases[task.workload][: None if every else 1]
        results = self._session(pooled, task, built, cases, self._options)
        self._watch.measured(pooled, results)
        return results

    def _session(
        self,
        pooled: PooledBoard,
        task: Task,
        built: Sequence[BuiltCandidate],
        cases: tuple[Case, ...],
        how: TuneOptions,
    ) -> list[Result]:
        """Measure like `_measure`, but do not judge the board by the results."""
        limit_s = trial_limit_s(task, pooled.board, how, len(cases), self._target.kind)
        session_s = limit_s if len(built) == 1 else limit_s * _SHARED
        key = record_key(task.workload, self._target, pooled.board.record_class)
        plans: tuple[CandidatePlan, ...] = ()
        if self._planner:
            if not all(case.outputs.exists() for case in cases):
                built = built[:1]  # its outputs become the expected ones
            try:
                plans = tuple(self._planner.plan(task, key, item, cases, how, limit_s) for item in built)
            except OSError as error:
                return [Result(failure="upload", message=str(error))] if len(built) == 1 else []
            session_s += SESSION_S
        try:
            pooled.worker.call(START_S, ready)
            until = time.monotonic() + _OTHERS_S
            lost_once = False
            while True:
                with self.pool.tracker() as tracker:
                    grant = wait_for_server(tracker, pooled.key, session_s + BUSY_S, session_s)
                begun, used = time.monotonic(), True
                try:
                    if plans:
                        planned = PlanRequest(grant, pooled.key, plans, self._target.kind, session_s)
                        results = pooled.worker.call(session_s + GRACE_S, measure_plans, planned)
                    else:
                        possible = possible_times(task, key, self._target, how.repeat, session_s)
                        request = requested(
                            grant, pooled.key, self._target, built, cases, how, limit_s, possible
                        )
                        results = pooled.worker.call(session_s + GRACE_S, measure, request)
                    break
                except SessionLostError as error:
                    if lost_once:
                        results = [Result(failure="upload", message=error.message)]
                        break
                    lost_once = True
                except BoardBusyError as error:
                    used = False
                    if time.monotonic() > until:
                        raise ToolchainError(f"others have measured there for {_OTHERS_S:g} s") from error
                    session_s = min(2 * session_s, _OTHERS_S)  # its place in the queue ends with it
                finally:
                    if used:
                        self._used_s[pooled.board.name] += time.monotonic() - begun
        except TimeoutError as error:
            silent = who_is_silent(self._lab.host, self._lab.port, pooled.board.name)
            raise BoardLostError(f"{error}: {silent}") from error
        except ToolchainError as error:
            raise BoardLostError(error.message) from error  # the hint fits only an error that ends a command
        except WorkerDiedError as error:
            results = [Result(failure="runtime", message=str(error))] if len(built) == 1 else []
        if results and results[-1].failure:
            if len(results) > 1 and not plans:
                results.pop()
            elif results[-1].failure in (_BY_PLANS if plans else _BY_CALLS) and self.pool.lost(pooled):
                if len(results) == 1:
                    raise BoardLostError(results[0].message)
                results.pop()
        return [replace(result, board=pooled.board.name) for result in results]


def _shares(built: Sequence[BuiltCandidate], lanes: int) -> list[Sequence[BuiltCandidate]]:
    """Divide candidates into a share for each board; each share is a contiguous slice."""
    size = max(_SHARE, -(-len(built) // lanes))
    return [built[begin : begin + size] for begin in range(0, len(built), size)]


def _of_one_library(built: Sequence[BuiltCandidate]) -> Sequence[BuiltCandidate]:
    """Return the first candidates that are all in the same library."""
    return list(takewhile(lambda item: item.library == built[0].library, built))


@contextmanager
def board_evaluator(
    boards: Sequence[Board], target: BoardTarget, options: TuneOptions, listener: Listener
) -> Iterator[Evaluator]:
    """Yield worker processes that build here and boards that measure; end them afterwards.

    Raises
    ------
    UsageError
        A board lacks the device that the code is for, or its driver does not answer.
    ToolchainError
        The lab does not start.
    """
    compilers = compilers_for(
        options.builders, lambda text: listener(Notice(text))
    )  # before the lab, since a fleet may be unreachable
    listener(StepBegan("starting the lab"))
    with (
        closing(compilers),
        join(boards, target.threads, target.cpu, lambda text: listener(StepBegan(text))) as lab,
        scratch_folder() as folder,
    ):
        builder = LibraryBuilder(compilers, boards[0].profile, folder)
        planner = Planner(folder, target) if is_switched_on() else None
        runner = BoardRunner(boards, lab, target, options, listener, planner)
        try:
            device = device_there(runner.pool, target.limits.kind) if target.limits else ""
            if device and (said := told(device, target.device)):
                listener(Notice(said))
            if target.device and not device:
                check_driver(runner.pool, target.device)
            yield Evaluator(builder, runner, device)
        finally:
            runner.close()
            compilers.close()  # before the folder that they write to is removed

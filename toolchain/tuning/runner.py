"""Boards measure candidates, through the lab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from toolchain.boards.board import Board
from toolchain.configuration.settings import settings
from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.measuring.deadlines import deadline
from toolchain.processes.interrupts import let_signals_end_waits
from toolchain.processes.worker import WorkerDiedError
from toolchain.rpc.client import Grant
from toolchain.rpc.lab import Lab, join
from toolchain.rpc.session import wait_for_server
from toolchain.rpc.silence import who_is_silent
from toolchain.targets.target import BoardTarget
from toolchain.tasks.bench import Bench, Built
from toolchain.tasks.reference import Case
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.tuning.board_pool import BoardLostError, BoardPool, PooledBoard
from toolchain.tuning.builder import host_builder
from toolchain.tuning.events import Listener, Notice, Step
from toolchain.tuning.measure import Request, measure, ready
from toolchain.tuning.options import TuneOptions

_START_S = 120.0  # for a worker to import TVM on a busy machine; it takes 2 s
# The server answers its own deadline; a worker that hears nothing for this much longer is stuck.
_GRACE_S = 20.0
_WAIT_S = 30.0  # for a board that somebody else measures on, beyond the deadline of one measurement
_ATTEMPTS = 3  # so many boards may go away under a candidate in one run


class BoardRunner:
    """Measures on boards, one worker process for each; see `tasks.bench.Runner`.

    A board that hangs delays nobody else.
    """

    def __init__(
        self,
        boards: Sequence[Board],
        lab: Lab,
        target: BoardTarget,
        options: TuneOptions,
        listener: Listener,
    ) -> None:
        self._lab, self._target, self._options = lab, target, options
        self.lanes = len(boards)
        self.names = tuple(board.name for board in boards)
        self.pool = BoardPool(boards, lab, lambda text: listener(Notice(text)))
        self._threads = ThreadPoolExecutor(max_workers=len(boards))
        self._cases: dict[str, tuple[Case, ...]] = {}

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        """Compare from now on what candidates of a task compute."""
        self._cases[task.workload] = tuple(cases)

    def run(self, task: Task, built: Sequence[Built]) -> list[Result]:
        """Measure libraries of one task, in their order.

        A candidate whose board goes away is measured again, on another one if there is one.
        """
        let_signals_end_waits()
        return list(self._threads.map(lambda item: self._measure_anywhere(task, item), built))

    def check(self, task: Task, built: Sequence[Built]) -> list[Result]:
        """Measure libraries of one task, in their order, once they have computed every case."""
        let_signals_end_waits()
        return list(self._threads.map(lambda item: self._measure_anywhere(task, item, every=True), built))

    def compare(self, task: Task, built: Sequence[Built], rounds: int) -> list[list[Result]]:
        """Measure libraries in turn, all on one board; return what each round gave."""
        lost = ""
        for _ in range(_ATTEMPTS):
            with suppress(BoardLostError), self.pool.take() as pooled:
                try:
                    return [[self._measure(pooled, task, item) for item in built] for _ in range(rounds)]
                except BoardLostError as error:
                    lost = f"board {pooled.board.name}: {error}"
                    raise
        raise ToolchainError(
            f"the finalists of task {task.id} ({task.name}) could not be compared: {lost}",
            "`toolchain lab status` shows the boards; what was measured is kept: run it again",
        )

    def close(self) -> None:
        """End the processes that talk to boards."""
        self._threads.shutdown(wait=False, cancel_futures=True)  # nothing new is begun
        self.pool.close()
        self._threads.shutdown(wait=True)

    def _measure_anywhere(self, task: Task, built: Built, *, every: bool = False) -> Result:
        lost = Result()
        for _ in range(_ATTEMPTS):
            with suppress(BoardLostError), self.pool.take() as pooled:
                try:
                    return self._measure(pooled, task, built, every=every)
                except BoardLostError as error:
                    message = f"{_ATTEMPTS} times a board went away; at last {pooled.board.name}: {error}"
                    lost = Result(failure="upload", message=message, board=pooled.board.name)
                    raise
        return lost

    def _measure(self, pooled: PooledBoard, task: Task, built: Built, *, every: bool = False) -> Result:
        if built.library is None:
            return Result(failure=built.failure, message=built.message)
        cases = self._cases[task.workload][: None if every else 1]
        limit_s = self._limit_s(pooled.board, task, len(cases))
        try:
            pooled.worker.call(_START_S, ready)
            with self.pool.tracker() as tracker:
                grant = wait_for_server(tracker, pooled.key, limit_s + _WAIT_S, limit_s)
            request = self._request(pooled, grant, built, built.library, limit_s, cases)
            result = pooled.worker.call(limit_s + _GRACE_S, measure, request)
        except TimeoutError as error:
            silent = who_is_silent(self._lab.host, self._lab.port, pooled.board.name)
            raise BoardLostError(f"{error}: {silent}") from error
        except ToolchainError as error:
            raise BoardLostError(error.message) from error  # its hint is for those who see it end a command
        except WorkerDiedError as error:
            result = Result(failure="runtime", message=str(error))
        if result.failure in ("upload", "runtime") and self.pool.lost(pooled):
            raise BoardLostError(result.message)
        return replace(result, board=pooled.board.name)

    def _limit_s(self, board: Board, task: Task, cases: int) -> float:
        return deadline(
            task.flops,
            board.profile,
            emulated=board.emulated,
            # the comparisons, the evaluator's own warm-up, and what it times
            runs=cases + 1 + self._options.number * self._options.repeat,
            extra_s=self._options.repeat * self._options.min_repeat_ms / 1e3,
            timeout=self._options.timeout_s,
        ).seconds

    def _request(
        self,
        pooled: PooledBoard,
        grant: Grant,
        built: Built,
        library: Path,
        limit_s: float,
        cases: tuple[Case, ...],
    ) -> Request:
        return Request(
            grant=grant,
            key=pooled.key,
            library=library,
            parameters=built.candidate.parameters,
            outputs=built.candidate.outputs,
            memory=built.candidate.memory,
            threads=self._target.threads,
            cluster=self._target.cpu,
            number=self._options.number,
            repeat=self._options.repeat,
            min_repeat_ms=self._options.min_repeat_ms,
            timeout_s=limit_s,
            cases=cases,
        )


@contextmanager
def board_bench(
    boards: Sequence[Board], target: BoardTarget, options: TuneOptions, listener: Listener
) -> Iterator[Bench]:
    """Yield processes that build here and boards that measure; nothing of them is left afterwards.

    Raises
    ------
    ToolchainError
        The lab does not come up.
    """
    listener(Step("starting the lab"))
    with (
        join(boards, threads=target.threads, cluster=target.cpu) as lab,
        scratch_folder() as folder,
        host_builder(settings().jobs, boards[0].profile, folder) as builder,
    ):
        runner = BoardRunner(boards, lab, target, options, listener)
        try:
            yield Bench(builder, runner)
        finally:
            runner.close()

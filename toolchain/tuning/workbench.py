"""The two kinds of workers of a run, and what they measure with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import tvm

from toolchain.boards.board import Board
from toolchain.configuration.settings import settings
from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.lowering.tasks import Task
from toolchain.measuring.deadlines import deadline
from toolchain.processes.interrupts import let_signals_end_waits
from toolchain.processes.worker import Worker, WorkerDiedError
from toolchain.rpc.client import Grant
from toolchain.rpc.lab import Lab
from toolchain.rpc.session import wait_for_server
from toolchain.rpc.silence import who_is_silent
from toolchain.targets.target import BoardTarget
from toolchain.tuning.candidate import Candidate
from toolchain.tuning.compile import Compiled, compile_candidate
from toolchain.tuning.events import Listener, Notice
from toolchain.tuning.measure import Measured, Request, measure, ready
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.stations import BoardLostError, Station, Stations

# One function compiles in 0.1 to 3 s; unrolled ones take LLVM longer on a busy machine.
_COMPILE_S = 60.0
_START_S = 120.0  # for a worker to import TVM on a busy machine; it takes 2 s
# The server answers its own deadline; a worker that hears nothing for this much longer is stuck.
_GRACE_S = 20.0
_WAIT_S = 30.0  # for a board that somebody else measures on, beyond the deadline of one measurement
_ATTEMPTS = 3  # so many boards may go away under a candidate in one run


@dataclass(frozen=True)
class Workbench:
    """Compiles candidates on this host and measures them on boards.

    One worker process compiles per job, one measures per board, so that a board that hangs delays
    nobody else.
    """

    boards: Sequence[Board]
    lab: Lab
    target: BoardTarget
    options: TuneOptions
    folder: Path
    compilers: SimpleQueue[Worker]
    stations: Stations
    threads: ThreadPoolExecutor
    numbers: Iterator[int]

    def compile(self, candidates: Sequence[Candidate]) -> list[Compiled]:
        """Compile candidates, in their order."""
        let_signals_end_waits()
        return list(self.threads.map(self._compile, candidates))

    def measure(self, task: Task, compiled: Sequence[Compiled]) -> list[Measured]:
        """Measure libraries of one task, in their order; what was not compiled stays failed.

        A candidate whose board goes away is measured again, on another one if there is one.
        """
        let_signals_end_waits()
        return list(self.threads.map(lambda item: self._measure_anywhere(task, item), compiled))

    def compare(self, task: Task, compiled: Sequence[Compiled], rounds: int) -> list[list[Measured]]:
        """Measure libraries in turn, all on one board; return what each round gave."""
        lost = ""
        for _ in range(_ATTEMPTS):
            with suppress(BoardLostError), self.stations.taken() as station:
                try:
                    return [[self._measure(station, task, item) for item in compiled] for _ in range(rounds)]
                except BoardLostError as error:
                    lost = f"board {station.board.name}: {error}"
                    raise
        raise ToolchainError(
            f"the finalists of task {task.id} ({task.name}) could not be compared: {lost}",
            "`toolchain lab status` shows the boards; what was measured is kept: run it again",
        )

    def _compile(self, candidate: Candidate) -> Compiled:
        library = self.folder / f"{next(self.numbers)}.so"
        text, target = tvm.ir.save_json(candidate.module), str(self.target.target)
        worker = self.compilers.get()
        try:
            compiled = worker.call(
                _COMPILE_S, compile_candidate, text, target, self.boards[0].profile, library
            )
            return replace(compiled, candidate=candidate)
        except TimeoutError as error:
            return Compiled(None, "timeout", f"compiling: {error}")
        except WorkerDiedError as error:
            return Compiled(None, "build", str(error))
        finally:
            self.compilers.put(worker)

    def _measure_anywhere(self, task: Task, compiled: Compiled) -> Measured:
        lost = Measured()
        for _ in range(_ATTEMPTS):
            with suppress(BoardLostError), self.stations.taken() as station:
                try:
                    return self._measure(station, task, compiled)
                except BoardLostError as error:
                    message = f"{_ATTEMPTS} times a board went away; at last {station.board.name}: {error}"
                    lost = Measured(failure="upload", message=message, board=station.board.name)
                    raise
        return lost

    def _measure(self, station: Station, task: Task, compiled: Compiled) -> Measured:
        if compiled.library is None or compiled.candidate is None:
            return Measured(failure=compiled.failure, message=compiled.message)
        limit_s = self._limit_s(station.board, task)
        try:
            station.worker.call(_START_S, ready)
            with self.stations.tracker() as tracker:
                grant = wait_for_server(tracker, station.key, limit_s + _WAIT_S, limit_s)
            request = self._request(station, grant, task, compiled.candidate, compiled.library, limit_s)
            result = station.worker.call(limit_s + _GRACE_S, measure, request)
        except TimeoutError as error:
            silent = who_is_silent(self.lab.host, self.lab.port, station.board.name)
            raise BoardLostError(f"{error}: {silent}") from error
        except ToolchainError as error:
            raise BoardLostError(error.message) from error  # its hint is for those who see it end a command
        except WorkerDiedError as error:
            result = Measured(failure="runtime", message=str(error))
        if result.failure in ("upload", "runtime") and self.stations.lost(station):
            raise BoardLostError(result.message)
        return replace(result, board=station.board.name)

    def _limit_s(self, board: Board, task: Task) -> float:
        return deadline(
            task.flops,
            board.profile,
            emulated=board.emulated,
            # the comparison, the evaluator's own warm-up, and what it times
            runs=2 + self.options.number * self.options.repeat,
            extra_s=self.options.repeat * self.options.min_repeat_ms / 1e3,
            timeout=self.options.timeout_s,
        ).seconds

    def _request(
        self,
        station: Station,
        grant: Grant,
        task: Task,
        candidate: Candidate,
        library: Path,
        limit_s: float,
    ) -> Request:
        return Request(
            grant=grant,
            key=station.key,
            library=library,
            parameters=candidate.parameters,
            outputs=candidate.outputs,
            threads=self.target.threads,
            cluster=self.target.cpu,
            number=self.options.number,
            repeat=self.options.repeat,
            min_repeat_ms=self.options.min_repeat_ms,
            timeout_s=limit_s,
            reference=self.folder / f"{task.id}.npz",
        )


@contextmanager
def open_workbench(
    boards: Sequence[Board], lab: Lab, target: BoardTarget, options: TuneOptions, listener: Listener
) -> Iterator[Workbench]:
    """Yield a workbench; its processes and files are gone afterwards, Ctrl-C included."""
    jobs = settings().jobs
    compilers = [Worker() for _ in range(jobs)]
    stations = Stations(boards, lab, lambda text: listener(Notice(text)))
    threads = ThreadPoolExecutor(max_workers=max(jobs, len(boards)))
    with scratch_folder() as folder:
        try:
            yield Workbench(
                boards=boards,
                lab=lab,
                target=target,
                options=options,
                folder=folder,
                compilers=_queue(compilers),
                stations=stations,
                threads=threads,
                numbers=count(),
            )
        finally:
            threads.shutdown(wait=False, cancel_futures=True)  # nothing new is begun
            stations.close()
            for worker in compilers:
                worker.end()
            threads.shutdown(wait=True)


def _queue(workers: Sequence[Worker]) -> SimpleQueue[Worker]:
    queue: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        queue.put(worker)
    return queue

"""The two kinds of workers of a run, and what they measure with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import tvm

from toolchain.boards.board import Board
from toolchain.building.tasks import Task
from toolchain.config import settings
from toolchain.measuring.deadlines import deadline
from toolchain.rpc.lab import Lab
from toolchain.targets.target import BoardTarget
from toolchain.tuning.compile import Compiled, compile_candidate
from toolchain.tuning.measure import Arguments, Measured, Request, measure
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.worker import Worker, WorkerDiedError

# One function compiles in 0.1 to 3 s; unrolled ones take LLVM longer on a busy machine.
_COMPILE_S = 60.0
# The server answers its own deadline; a worker that hears nothing for this much longer is stuck.
_GRACE_S = 45.0


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
    measurers: SimpleQueue[Worker]
    threads: ThreadPoolExecutor
    numbers: Iterator[int]

    def compile(self, modules: Sequence[tvm.IRModule]) -> list[Compiled]:
        """Compile scheduled modules, in their order."""
        return list(self.threads.map(self._compile, modules))

    def measure(self, task: Task, compiled: Sequence[Compiled]) -> list[Measured]:
        """Measure libraries of one task, in their order; what was not compiled stays failed."""
        return list(self.threads.map(lambda item: self._measure(task, item), compiled))

    def _compile(self, module: tvm.IRModule) -> Compiled:
        library = self.folder / f"{next(self.numbers)}.so"
        text, target = tvm.ir.save_json(module), str(self.target.target)
        worker = self.compilers.get()
        try:
            return worker.call(_COMPILE_S, compile_candidate, text, target, self.boards[0].profile, library)
        except TimeoutError as error:
            return Compiled(None, "timeout", f"compiling: {error}")
        except WorkerDiedError as error:
            return Compiled(None, "build", str(error))
        finally:
            self.compilers.put(worker)

    def _measure(self, task: Task, compiled: Compiled) -> Measured:
        if compiled.library is None:
            return Measured(failure=compiled.failure, message=compiled.message)
        request = self._request(task, compiled.library)
        worker = self.measurers.get()
        try:
            return worker.call(request.timeout_s + _GRACE_S, measure, request)
        except TimeoutError as error:
            return Measured(failure="timeout", message=f"measuring: {error}")
        except WorkerDiedError as error:
            return Measured(failure="runtime", message=str(error))
        finally:
            self.measurers.put(worker)

    def _request(self, task: Task, library: Path) -> Request:
        board = self.boards[0]
        limit = deadline(
            task.flops,
            board.profile,
            emulated=board.emulated,
            # the comparison, the evaluator's own warm-up, and what it times
            runs=2 + self.options.number * self.options.repeat,
            extra_s=self.options.repeat * self.options.min_repeat_ms / 1e3,
            timeout=self.options.timeout_s,
        )
        return Request(
            host=self.lab.host,
            port=self.lab.port,
            key=board.tracker_key,
            library=library,
            arguments=Arguments(
                task.shapes, tuple(str(parameter.dtype) for parameter in task.func.params), task.outputs
            ),
            threads=self.target.threads,
            cluster=self.target.cpu,
            number=self.options.number,
            repeat=self.options.repeat,
            min_repeat_ms=self.options.min_repeat_ms,
            timeout_s=limit.seconds,
            reference=self.folder / f"{task.id}.npz",
        )


@contextmanager
def open_workbench(
    boards: Sequence[Board], lab: Lab, target: BoardTarget, options: TuneOptions
) -> Iterator[Workbench]:
    """Yield a workbench; its processes and files are gone afterwards, Ctrl-C included."""
    jobs = settings().jobs
    compilers = [Worker() for _ in range(jobs)]
    measurers = [Worker() for _ in boards]
    threads = ThreadPoolExecutor(max_workers=max(jobs, len(boards)))
    with tempfile.TemporaryDirectory(prefix="toolchain-tune-") as folder:
        try:
            yield Workbench(
                boards=boards,
                lab=lab,
                target=target,
                options=options,
                folder=Path(folder),
                compilers=_queue(compilers),
                measurers=_queue(measurers),
                threads=threads,
                numbers=count(),
            )
        finally:
            for worker in (*compilers, *measurers):
                worker.close()
            threads.shutdown(wait=True, cancel_futures=True)


def _queue(workers: Sequence[Worker]) -> SimpleQueue[Worker]:
    queue: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        queue.put(worker)
    return queue

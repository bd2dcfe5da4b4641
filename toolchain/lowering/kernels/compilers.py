"""Compiles a network's functions in this process and in workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, PriorityQueue, SimpleQueue
from types import TracebackType

from toolchain.errors import ToolchainError
from toolchain.lowering.kernels.begin import begin
from toolchain.lowering.kernels.compile import compile_kernel
from toolchain.processes.interrupts import uninterrupted
from toolchain.processes.worker import Worker, WorkerDiedError

_FEW = 2
"""Number of functions that are compiled in this process before workers are started."""

_START_S = 300.0  # to import TVM: takes 1 s, longer on a busy machine
_FUNCTION_S = 900.0  # a function takes 0.05 to 3 s; a large unrolled one on a busy machine longer
_POLL_S = 0.1
_Task = tuple[float, str, bytes]  # priority (the smallest first), symbol, recipe
_END: _Task = (-1.0, "", b"")
_Answer = tuple[str, bytes | BaseException]


class FunctionCompilers:
    """This process and its workers, which start when there is enough work and end with the block.

    Each worker has a thread in this process that talks to it, so that a slow worker does not delay others.

    Parameters
    ----------
    jobs
        Number of processes, this one included.
    target
        TVM target as text.
    """

    def __init__(self, jobs: int, target: str) -> None:
        self._jobs, self._target = jobs, target
        self._threads: list[tuple[threading.Thread, Worker]] = []
        self._tasks: PriorityQueue[_Task] = PriorityQueue()
        self._answers: SimpleQueue[_Answer] = SimpleQueue()
        self._open = 0  # number of tasks whose result was not yielded yet

    def __enter__(self) -> FunctionCompilers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes, even if they are compiling."""
        for _ in self._threads:
            self._tasks.put(_END)
        with uninterrupted():
            for thread, worker in self._threads:
                while thread.is_alive():  # repeated, since the thread may be about to start its process
                    worker.kill()
                    thread.join(_POLL_S)
                worker.close()

    def start(self) -> None:
        """Start the workers unless they run, which takes as long as compiling some functions."""
        for _ in range(self._jobs - 1 - len(self._threads)):
            worker = Worker()
            thread = threading.Thread(target=self._serve, args=(worker,), daemon=True)
            self._threads.append((thread, worker))
            thread.start()

    def submit(self, symbol: str, recipe: bytes) -> None:
        """Queue a function for compilation.

        Parameters
        ----------
        recipe
            Recipe as bytes, from `pickled`.
        """
        # The longest recipes take longest, so they begin first: the last one would be waited for alone.
        self._tasks.put((1 / (1 + len(recipe)), symbol, recipe))
        self._open += 1
        if self._open > _FEW:
            self.start()

    def results(self) -> Iterator[tuple[str, bytes]]:
        """Yield each symbol with its part as soon as it is compiled, until nothing is left.

        Raises
        ------
        ToolchainError
            A function cannot be compiled, or the process that compiled it died.
        """
        while self._open:
            symbol, answer = self._next()
            self._open -= 1
            if isinstance(answer, BaseException):
                raise answer
            yield symbol, answer

    def _next(self) -> _Answer:
        while True:  # waits in short pieces, since signal handlers run between them
            with suppress(Empty):
                return self._answers.get_nowait()
            with suppress(Empty):
                return self._here(self._tasks.get_nowait())
            with suppress(Empty):
                return self._answers.get(timeout=_POLL_S)

    def _here(self, task: _Task) -> _Answer:
        _size, symbol, recipe = task
        with uninterrupted():  # TVM releases the GIL, so the threads go on
            return symbol, compile_kernel(recipe, self._target, symbol)

    def _serve(self, worker: Worker) -> None:
        with suppress(Exception):  # the error occurs again when a function is compiled
            worker.call(_START_S, begin)
        while (task := self._tasks.get()) is not _END:
            _size, symbol, recipe = task
            self._answers.put((symbol, self._compiled(worker, symbol, recipe)))

    def _compiled(self, worker: Worker, symbol: str, recipe: bytes) -> bytes | BaseException:
        try:
            return worker.call(_FUNCTION_S, compile_kernel, recipe, self._target, symbol)
        except WorkerDiedError as error:
            return ToolchainError(
                f"compiling a function failed: {error}",
                "if memory was short, let fewer processes compile: TOOLCHAIN_JOBS=1",
            )
        except TimeoutError as error:
            return ToolchainError(f"compiling a function failed: {error}")
        except Exception as error:  # raised by the worker; `results` raises it again
            return error

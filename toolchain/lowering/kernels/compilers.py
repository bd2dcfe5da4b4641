"""The processes that compile a network's functions: this one, and workers."""

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
"""So many functions are compiled here before a process has even begun."""

_START_S = 300.0  # to import TVM on a busy machine; it takes 1 s
_FUNCTION_S = 900.0  # a function takes 0.05 to 3 s; a large unrolled one on a busy machine longer
_POLL_S = 0.1
_Task = tuple[float, str, bytes]  # what is smallest comes first
_END: _Task = (-1.0, "", b"")
_Answer = tuple[str, bytes | BaseException]


class Compilers:
    """This process and workers, which are started when there is work for them; none outlives the block.

    Each worker has a thread of this process that talks to it, so that one which is late delays no other.

    Parameters
    ----------
    jobs
        How many processes, this one included.
    target
        What they compile for, as its own text.
    """

    def __init__(self, jobs: int, target: str) -> None:
        self._jobs, self._target = jobs, target
        self._threads: list[tuple[threading.Thread, Worker]] = []
        self._tasks: PriorityQueue[_Task] = PriorityQueue()
        self._answers: SimpleQueue[_Answer] = SimpleQueue()
        self._open = 0  # tasks that nobody was told the answer of

    def __enter__(self) -> Compilers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, whatever they are at."""
        for _ in self._threads:
            self._tasks.put(_END)
        with uninterrupted():
            for thread, worker in self._threads:
                while thread.is_alive():  # it may be about to start its process: once is not enough
                    worker.kill()
                    thread.join(_POLL_S)
                worker.close()

    def start(self) -> None:
        """Start the processes, unless they run: that takes as long as to compile some functions."""
        for _ in range(self._jobs - 1 - len(self._threads)):
            worker = Worker()
            thread = threading.Thread(target=self._serve, args=(worker,), daemon=True)
            self._threads.append((thread, worker))
            thread.start()

    def submit(self, symbol: str, recipe: bytes) -> None:
        """Have a function compiled.

        Parameters
        ----------
        recipe
            What `pickled` made of it.
        """
        # The longest take longest: one that is begun last would be waited for alone.
        self._tasks.put((1 / (1 + len(recipe)), symbol, recipe))
        self._open += 1
        if self._open > _FEW:
            self.start()

    def results(self) -> Iterator[tuple[str, bytes]]:
        """Yield every object, by its symbol, when it is there, until nothing is left to compile.

        Raises
        ------
        ToolchainError
            One cannot be compiled, or the process that compiled it died.
        """
        while self._open:
            symbol, answer = self._next()
            self._open -= 1
            if isinstance(answer, BaseException):
                raise answer
            yield symbol, answer

    def _next(self) -> _Answer:
        while True:  # in pieces: a signal's handler runs between them
            with suppress(Empty):
                return self._answers.get_nowait()
            with suppress(Empty):
                return self._here(self._tasks.get_nowait())
            with suppress(Empty):
                return self._answers.get(timeout=_POLL_S)

    def _here(self, task: _Task) -> _Answer:
        _size, symbol, recipe = task
        with uninterrupted():  # TVM lets the threads run meanwhile
            return symbol, compile_kernel(recipe, self._target, symbol)

    def _serve(self, worker: Worker) -> None:
        with suppress(Exception):  # what is wrong shows again when a function is compiled
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
        except Exception as error:  # what the worker raised, which the caller raises
            return error

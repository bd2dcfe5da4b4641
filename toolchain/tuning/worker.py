"""A process of our own that can be given up: code that may hang or crash runs in it.

The deadline is kept by the parent. TVM's own pool keeps it inside the worker, where a call into
native code that never returns also holds the lock that the worker's clock needs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Result = TypeVar("Result")
_SETTLE_S = 0.2
_END_S = 2.0


class WorkerDiedError(Exception):
    """The process ended by itself, for instance by a signal from native code."""


class Worker:
    """One process, started at its first call and again after it was given up."""

    def __init__(self) -> None:
        self._process: Any = None
        self._connection: Connection | None = None

    def call(self, deadline_s: float, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run `function(*arguments)` there; both must be picklable.

        Raises
        ------
        TimeoutError
            It did not answer in time; the process was killed.
        WorkerDiedError
            It ended without an answer.
        Exception
            What the function raised.
        """
        connection = self._connection or self._start()
        try:
            with _killed_after(deadline_s, self._process) as late:
                connection.send((function, arguments))
                failed, value = connection.recv()
        except (EOFError, OSError) as error:
            code = self.close()
            if late.is_set():
                raise TimeoutError(f"no answer within {deadline_s:.0f} s") from error
            raise WorkerDiedError(f"the process ended with exit code {code}") from error
        except BaseException:  # Ctrl-C included: an answer that comes too late must not be read later
            self.close()
            raise
        if late.is_set():  # it answered at the last moment
            self.close()
        if failed:
            raise value
        result: Result = value
        return result

    def close(self) -> int | None:
        """End the process; return the exit code it already had, a negative signal number included."""
        connection, process = self._connection, self._process
        self._connection = self._process = None
        if connection is None:
            return None
        connection.close()
        process.join(_SETTLE_S)  # one that died by itself shows its own code
        code: int | None = process.exitcode
        process.kill()
        process.join(_END_S)
        return code

    def _start(self) -> Connection:
        context = get_context("spawn")  # never fork a process that runs TVM's threads
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        return self._connection


@contextmanager
def _killed_after(seconds: float, process: Any) -> Iterator[threading.Event]:
    """Kill a process unless the block ends in time; yield what says whether that was done.

    Its end frees whoever talks to it, also in the middle of a message, where a `poll` does not help.
    """
    late = threading.Event()

    def kill() -> None:
        late.set()
        process.kill()

    clock = threading.Timer(seconds, kill)
    clock.start()
    try:
        yield late
    finally:
        clock.cancel()
        clock.join()


def _serve(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    while True:
        try:
            function, arguments = connection.recv()
        except (EOFError, ConnectionError):  # the parent is gone, or has let go in the middle
            return
        try:
            answer = (False, function(*arguments))
        except Exception as error:
            answer = (True, error)
        with suppress(ConnectionError):
            connection.send(answer)

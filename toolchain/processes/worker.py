"""A worker process for code that may hang or crash: it is killed at a deadline, and started again.

The deadline is kept by the parent. TVM's own pool keeps it inside the worker, where a call into
native code that never returns also holds the lock that the worker's clock needs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any, TypeVar

from toolchain.imports import module_search
from toolchain.processes.deadline import killed_after
from toolchain.processes.interrupts import let_signals_end_waits

Result = TypeVar("Result")
_SETTLE_S = 0.2
_END_S = 2.0


class WorkerDiedError(Exception):
    """The process ended by itself, for instance by a signal from native code."""


class Worker:
    """One process, started at its first call and again after it was killed or has crashed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._ended = False

    def call(self, deadline_s: float, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run `function(*arguments)` there; both must be picklable.

        Raises
        ------
        TimeoutError
            It did not answer in time; the process was killed.
        WorkerDiedError
            It ended without an answer, or `end` has been called.
        Exception
            What the function raised.
        """
        let_signals_end_waits()
        connection, process = self._connection, self._process
        if connection is None or process is None:
            connection, process = self._start()
        try:
            with killed_after(deadline_s, process) as late:
                connection.send((function, arguments))
                failed, value = connection.recv()
        except (EOFError, OSError) as error:
            code = self.close()
            if late.is_set():
                raise TimeoutError(f"no answer within {deadline_s:.0f} s") from error
            raise WorkerDiedError(self._how(code)) from error
        except BaseException:  # Ctrl-C included: an answer that comes too late must not be read later
            self.close()
            raise
        if late.is_set():  # it answered at the last moment
            self.close()
        if failed:
            raise value
        result: Result = value
        return result

    def kill(self) -> None:
        """End the process from another thread; a `call` that waits for it raises WorkerDiedError."""
        if (process := self._process) is not None:
            process.kill()

    def end(self) -> None:
        """End the process for good, from any thread: no call starts it again."""
        self._ended = True
        self.close()

    def close(self) -> int | None:
        """End the process; return the exit code it already had, a negative signal number included."""
        connection, process = self._connection, self._process
        self._connection = self._process = None
        if connection is None or process is None:
            return None
        connection.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SETTLE_S)  # one that died by itself shows its own code
        code = process.poll()
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        return code

    def _how(self, code: int | None) -> str:
        if code is not None:
            return f"the process ended with exit code {code}"
        if self._ended:
            return "the process was ended with the run"
        return "the process no longer answered, and was ended"

    def _start(self) -> tuple[Connection, subprocess.Popen[bytes]]:
        # No fork: this process runs TVM's threads. Nor multiprocessing's spawn, which runs the caller's own
        # program once more in the child. In a session of its own no Ctrl-C reaches it: that is the parent's.
        ours, theirs = Pipe()
        with theirs:
            place = theirs.fileno()
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from toolchain.processes.worker import serve; serve({place})"],
                stdin=subprocess.DEVNULL,
                pass_fds=[place],
                start_new_session=True,
                env=module_search.environment(),
            )
        self._connection, self._process = ours, process
        if self._ended:  # meanwhile
            self.close()
            raise WorkerDiedError("it was ended")
        return ours, process


def serve(descriptor: int) -> None:
    """Answer calls until the parent closes the connection: the main loop of the worker process."""
    connection = Connection(descriptor)
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

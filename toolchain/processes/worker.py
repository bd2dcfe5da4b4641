"""A worker process for code that may hang or crash: it is killed on a timeout and started again.

The parent enforces the timeout. TVM's own pool enforces it inside the worker, where native code that never
returns also holds the interpreter lock that the worker's timer needs.
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
    """The worker process ended without being asked to, for instance by a crash of native code."""


class Worker:
    """One worker process, started at the first call and again after a kill or crash."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._ended = False

    def call(self, deadline_s: float, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run `function(*arguments)` in the worker; all must be picklable.

        Raises
        ------
        TimeoutError
            The worker did not answer in time and was killed.
        WorkerDiedError
            The worker ended without an answer, or `end` has been called.
        Exception
            Any exception of the function.
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
        except BaseException:  # Ctrl-C included: the next call must not read a late answer to this one
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
        """End the process for good; any thread may call this, and no call starts it again."""
        self._ended = True
        self.close()

    def close(self) -> int | None:
        """End the process; return its exit code (or minus the signal) if it had ended already, else None."""
        connection, process = self._connection, self._process
        self._connection = self._process = None
        if connection is None or process is None:
            return None
        connection.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SETTLE_S)  # a process that crashed shows its own exit code
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
        # No fork, since this process runs TVM's threads; nor multiprocessing's spawn, which runs the caller's
        # main program again in the child. A new session keeps Ctrl-C from the child: the parent handles it.
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
        except (EOFError, ConnectionError):  # the parent has ended, or closed the connection during a message
            return
        try:
            answer = (False, function(*arguments))
        except Exception as error:
            answer = (True, error)
        with suppress(ConnectionError):
            connection.send(answer)

"""Child processes of this host that end with their owner."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from toolchain.boards.output.kept import Log, is_file
from toolchain.boards.transport import DeadlineError
from toolchain.processes.interrupts import uninterrupted

_EOF_SECONDS = 2.0  # to exit after its standard input was closed
_TERM_SECONDS = 2.0
_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.005
_LOG_SECONDS = 2.0  # for its last output; not longer: a process that left the group may hold the pipe
_CHUNK = 1 << 16


def kill_group(leader: subprocess.Popen[bytes], number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a child that leads a process group, and to its group.

    Do nothing once the leader is reaped: its process number may be another process's by then.
    """
    if leader.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, number)


def end_group(leader: subprocess.Popen[bytes]) -> None:
    """Kill a child and its group, unless the child has been reaped, and close its pipes."""
    kill_group(leader)
    for pipe in (leader.stdin, leader.stdout, leader.stderr):
        with contextlib.suppress(OSError):  # the child no longer reads its input
            if pipe:
                pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        leader.wait(_KILL_SECONDS)


def forbid_core_dumps(child: subprocess.Popen[bytes]) -> None:
    """Forbid core dumps, so that a crash cannot fill the board's folder (qemu-user writes its own dumps)."""
    with contextlib.suppress(OSError):
        resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, 0))


@contextlib.contextmanager
def _errors_to(log: Path | None) -> Iterator[int | IO[bytes]]:
    """Yield the `stderr` of `Popen`: a pipe if the log is a file, because we limit its size."""
    if log is None:
        yield subprocess.DEVNULL
    elif is_file(log):
        yield subprocess.PIPE
    else:
        with log.open("ab") as opened:
            yield opened


class _Logging(threading.Thread):
    """Copies a child's standard error to its log, up to the log's limit."""

    def __init__(self, errors: IO[bytes], log: Path) -> None:
        super().__init__(name=f"log {log.name}", daemon=True)
        self._errors, self._log = errors, Log(log)
        self.start()

    def run(self) -> None:
        with self._errors, self._log:
            while data := os.read(self._errors.fileno(), _CHUNK):
                self._log.write(data)


class LocalProcess:
    """A child in its own process group; its standard input stays open until `close`."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str], log: Path | None) -> None:
        child: subprocess.Popen[bytes] | None = None
        try:
            with _errors_to(log) as errors, uninterrupted():
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=cwd,
                    env=env,
                    start_new_session=True,
                )
            forbid_core_dumps(child)
            self._logging = _Logging(child.stderr, log) if log and child.stderr else None
        except BaseException:
            if child is not None:
                end_group(child)
            raise
        self._child = child
        assert self._child.stdout is not None  # noqa: S101 - PIPE above
        self.stdout: IO[bytes] = self._child.stdout
        self.pid = self._child.pid

    def poll(self) -> int | None:
        """Return the return code, or None while the child runs."""
        if self._child.returncode is not None:
            return self._child.returncode
        # WNOWAIT does not reap the child, so that `close` can still signal its group.
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def wait(self, timeout: float) -> int:
        """Wait for the child and return its code.

        Raises
        ------
        DeadlineError
            It did not end within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() >= deadline:
                raise DeadlineError(f"process {self.pid} did not end within {timeout:g} s")
            time.sleep(_POLL_SECONDS)
        return code

    def close(self) -> None:
        """End the child: close its input, then SIGTERM, then SIGKILL; then kill the rest of its group."""
        if self._child.returncode is not None:
            return
        try:
            with contextlib.suppress(OSError):
                if self._child.stdin:
                    self._child.stdin.close()
            if not self._ended_within(_EOF_SECONDS):
                kill_group(self._child, signal.SIGTERM)
                self._ended_within(_TERM_SECONDS)
        finally:
            kill_group(self._child)
            self.stdout.close()
            self._child.wait(_KILL_SECONDS)
            if self._logging:
                self._logging.join(_LOG_SECONDS)

    def _ended_within(self, seconds: float) -> bool:
        try:
            self.wait(seconds)
        except DeadlineError:
            return False
        return True

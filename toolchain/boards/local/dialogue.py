"""A dialogue with a child process of this host."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from typing import IO

from toolchain.boards.local.process import forbid_core_dumps
from toolchain.boards.output.kept import MOST_ERRORS, Kept
from toolchain.boards.transport import MOST_LINE, DeadlineError

_CHUNK = 1 << 16
_JOIN_S = 2.0
_END_S = 2.0  # after its input ended, until `close` leaves it to itself


class LocalDialogue:
    """A `Dialogue` through the pipes of a child, whose input does not block."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin and child.stdout and child.stderr  # noqa: S101 - it was started with pipes
        self._child, self._input, self._output, self._stderr = child, child.stdin, child.stdout, child.stderr
        forbid_core_dumps(child)
        os.set_blocking(self._input.fileno(), False)
        self._read = b""
        self._errors = Kept(MOST_ERRORS, last=True)
        self._drain = threading.Thread(target=self._read_errors, name="stderr of a board", daemon=True)
        self._drain.start()

    def send(self, data: bytes, patience: float) -> bool:
        """Send `data`; see `Dialogue.send`."""
        pending = memoryview(data)
        while pending:
            if not _ready(self._input, select.POLLOUT, patience):
                raise self._late(patience)
            try:
                pending = pending[os.write(self._input.fileno(), pending) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return False
        return True

    def read_line(self, timeout: float) -> bytes:
        """Return the next line of the output; see `Dialogue.read_line`."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._read and len(self._read) < MOST_LINE:
            left = max(0.0, deadline - time.monotonic())
            if not _ready(self._output, select.POLLIN, left):
                raise self._late(timeout)
            data = os.read(self._output.fileno(), _CHUNK)
            if not data:
                break
            self._read += data
        size = min(self._read.find(b"\n") + 1 or len(self._read), MOST_LINE)
        line, self._read = self._read[:size], self._read[size:]
        return line

    def wait(self, timeout: float) -> int:
        """Wait for the command to end; see `Dialogue.wait`."""
        try:
            return self._child.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise self._late(timeout) from error

    def errors(self) -> bytes:
        """Return the end of its standard error."""
        self._drain.join(_JOIN_S)
        return self._errors.content()

    def close(self) -> None:
        """Close the pipes, and leave a command that goes on to itself."""
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_END_S)

    def _late(self, seconds: float) -> DeadlineError:
        return DeadlineError(f"process {self._child.pid}: no progress within {seconds:g} s")

    def _read_errors(self) -> None:
        with self._stderr:
            while data := os.read(self._stderr.fileno(), _CHUNK):
                self._errors.take(data)


def _ready(pipe: IO[bytes], event: int, seconds: float) -> bool:
    """Wait until a pipe is ready, or its other end is closed; return False on timeout."""
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(seconds * 1000))

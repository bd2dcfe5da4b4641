"""Limits on the output of boards, so that it cannot fill the host's memory or disk."""

from __future__ import annotations

import os
import selectors
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

MOST_OUTPUT = 16 * 2**20
"""Limit of a command's standard output in bytes: the largest, a million samples of `bench`, has 11 MB."""

MOST_ERRORS = 2**20
"""Limit of a command's standard error in bytes; messages show its last line."""

MOST_LOG = 16 * 2**20
"""Limit of a log in bytes: enough for a server that complains for days."""


class Kept:
    """Stores the first or the last bytes of a stream and counts the others.

    Parameters
    ----------
    most
        Largest number of bytes to store.
    last
        Store the end: programs report there why they failed.
    """

    def __init__(self, most: int, *, last: bool = False) -> None:
        self._most = most
        self._last = last
        self._data = bytearray()
        self._total = 0

    def take(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        self._total += len(data)
        if not self._last:
            self._data += data[: self._most - len(self._data)]
            return
        self._data += data
        if len(self._data) > 2 * self._most:
            del self._data[: -self._most]

    def content(self) -> bytes:
        """Return the stored bytes."""
        return bytes(self._data[-self._most :] if self._last else self._data)

    @property
    def dropped(self) -> int:
        """Number of bytes that were not stored."""
        return max(0, self._total - self._most)


class Log:
    """A file of this host that a board's output is appended to; at its limit a last line says so.

    A full disk or a reader that has gone stops the log; it raises no error.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)
        self._room = MOST_LOG - file.stat().st_size if is_file(file) else None

    def write(self, data: bytes) -> None:
        """Append data up to the limit; what exceeds it is dropped."""
        if self._room is None:
            self._put(data)
        elif self._room >= 0:
            self._put(data[: self._room])
            self._room -= len(data)
            if self._room < 0:
                self._put(f"\n(this log holds {MOST_LOG >> 20} MiB; the rest is left out)\n".encode())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, data: bytes) -> None:
        with suppress(OSError):
            self._file.write(data)


def is_file(path: Path) -> bool:
    """Return whether the path is a regular file or does not exist yet (it may be a pipe to a reader)."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


# Sends input to a child process and receives its output.

_CHUNK = 1 << 16


def exchange(child: subprocess.Popen[bytes], input: bytes, timeout: float) -> tuple[Kept, Kept]:
    """Send a child its input and read its output until it ends; `Kept` limits what is stored.

    Returns
    -------
    tuple
        Standard output and standard error of the child, which has ended.

    Raises
    ------
    subprocess.TimeoutExpired
        The child has not ended, or another process holds its output open, after `timeout` seconds.
    """
    assert child.stdin and child.stdout and child.stderr  # noqa: S101 - it was started with pipes
    deadline = time.monotonic() + timeout
    kept = {child.stdout.fileno(): Kept(MOST_OUTPUT), child.stderr.fileno(): Kept(MOST_ERRORS, last=True)}
    pending = memoryview(input)
    with selectors.DefaultSelector() as ready:
        for stream in (child.stdout, child.stderr):
            ready.register(stream, selectors.EVENT_READ)
        if pending:
            os.set_blocking(child.stdin.fileno(), False)
            ready.register(child.stdin, selectors.EVENT_WRITE)
        else:
            child.stdin.close()
        while ready.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(child.args, timeout)
            for key, _ in ready.select(left):
                if key.fileobj is child.stdin:
                    pending = pending[_written(key.fd, pending) :]
                    if not pending:
                        ready.unregister(child.stdin)
                        child.stdin.close()
                elif data := os.read(key.fd, _CHUNK):
                    kept[key.fd].take(data)
                else:
                    ready.unregister(key.fileobj)
    output, errors = kept.values()
    child.wait(max(0.0, deadline - time.monotonic()))
    return output, errors


def _written(pipe: int, data: memoryview) -> int:
    """Return how many bytes the pipe accepted; all of them if its reader is gone."""
    try:
        return os.write(pipe, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)

"""Runs a command on a board and forwards its output while it runs."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from toolchain.boards.transport import DeadlineError, Transport, checked_path

_CHUNK = 1 << 16
_LAST_WORDS_S = 2.0


class _Passing(threading.Thread):
    """Copies `source` to `sink` without delay, until either ends.

    Only the thread closes its descriptor: if another did, the number could already be another file's.
    """

    def __init__(self, source: int | IO[bytes], sink: IO[bytes]) -> None:
        super().__init__(name="output of a board", daemon=True)
        self._source, self._sink = source, sink
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            while data := self._next():
                self._sink.write(data)
                self._sink.flush()
        except Exception as error:  # the reader of `sink` is gone, or the connection is
            self.error = error
        finally:
            if isinstance(self._source, int):
                os.close(self._source)

    def _next(self) -> bytes:
        if isinstance(self._source, int):
            return os.read(self._source, _CHUNK)
        return cast(io.BufferedReader, self._source).read1(_CHUNK)


def run_live(
    transport: Transport, argv: Sequence[str], out: IO[bytes], errors: IO[bytes], timeout: float
) -> int:
    """Run a command without input until it ends; return its code as in `Completed`.

    Parameters
    ----------
    out, errors
        Receive its standard output and standard error while it runs.
    timeout
        Seconds until the command and its children are killed.

    Raises
    ------
    DeadlineError
        It did not end in time.
    ToolchainError
        The board or its folder cannot be reached, or the command cannot be started.
    """
    deadline = time.monotonic() + timeout
    late = DeadlineError(f"{argv[0]} did not end within {timeout:g} s and was killed")
    with _pass_to(errors) as log:
        process = transport.spawn(_without_input(transport, argv), log)
        try:
            passing = _Passing(_own(process.stdout), out)
            passing.join(timeout)
            if passing.error:
                raise passing.error
            if passing.is_alive():
                raise TimeoutError
            return process.wait(max(0.0, deadline - time.monotonic()))
        except (TimeoutError, DeadlineError) as error:
            raise late from error
        finally:
            process.close()


def _without_input(transport: Transport, argv: Sequence[str]) -> list[str]:
    """Return the command with empty standard input: that of a spawned command stays open."""
    if not transport.has_system:
        return list(argv)  # there is no shell
    if "/" in argv[0]:
        checked_path(argv[0])
    return ["sh", "-c", 'exec "$@" </dev/null', "sh", *argv]


@contextmanager
def _pass_to(sink: IO[bytes]) -> Iterator[Path]:
    """Yield the path of a pipe whose content is copied to `sink`."""
    reading, writing = os.pipe()
    passing = _Passing(reading, sink)
    try:
        yield Path(f"/dev/fd/{writing}")
    finally:
        os.close(writing)
        passing.join(_LAST_WORDS_S)  # not longer: a process outside the group may hold the pipe


def _own(stream: IO[bytes]) -> int | IO[bytes]:
    """Return a descriptor of `stream` that we own: then closing the stream does not wait for readers."""
    try:
        return os.dup(stream.fileno())
    except io.UnsupportedOperation:  # a channel over SSH: closing it ends its readers
        return stream

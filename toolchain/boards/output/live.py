"""A command on a board whose output is passed on as it comes."""

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
    """Writes what comes from `source` to `sink`, at once, until the end of either.

    A descriptor is closed by the thread alone: closed under it, its number could be another file's.
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
        except Exception as error:  # whoever reads us is gone, or the board is
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
    """Run a command to its end, without input; return its code as in `Completed`.

    Parameters
    ----------
    out, errors
        Get what it prints on its standard output and error, as soon as it does.
    timeout
        Seconds until it and its children are ended.

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
    """Return the command with an input that has ended: that of a spawned one stays open."""
    if not transport.has_system:
        return list(argv)  # there is no shell
    if "/" in argv[0]:
        checked_path(argv[0])
    return ["sh", "-c", 'exec "$@" </dev/null', "sh", *argv]


@contextmanager
def _pass_to(sink: IO[bytes]) -> Iterator[Path]:
    """Yield a file whose content goes to `sink`."""
    reading, writing = os.pipe()
    passing = _Passing(reading, sink)
    try:
        yield Path(f"/dev/fd/{writing}")
    finally:
        os.close(writing)
        passing.join(_LAST_WORDS_S)  # not longer: what left the command's group may still hold it


def _own(stream: IO[bytes]) -> int | IO[bytes]:
    """Return a descriptor of `stream` of our own: closing the stream then waits for no reader."""
    try:
        return os.dup(stream.fileno())
    except io.UnsupportedOperation:  # a channel over SSH, whose readers end when it is closed
        return stream

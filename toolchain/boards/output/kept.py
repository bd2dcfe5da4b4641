"""What a board prints, kept up to a limit, so that it cannot fill the host's memory or disk."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType

MOST_OUTPUT = 16 * 2**20
"""Bytes of a command's standard output: the largest answer, a million samples of `bench`, has 11 MB."""

MOST_ERRORS = 2**20
"""Bytes of a command's standard error, of which messages show the last line."""

MOST_LOG = 16 * 2**20
"""Bytes of a log: days of a server that has something to complain of."""


class Kept:
    """The first bytes of a stream, or its last; the rest is counted and forgotten.

    Parameters
    ----------
    most
        Bytes that are kept.
    last
        Keep the end: programs say there why they failed.
    """

    def __init__(self, most: int, *, last: bool = False) -> None:
        self._most = most
        self._last = last
        self._data = bytearray()
        self._total = 0

    def take(self, data: bytes) -> None:
        """Add what came next."""
        self._total += len(data)
        if not self._last:
            self._data += data[: self._most - len(self._data)]
            return
        self._data += data
        if len(self._data) > 2 * self._most:
            del self._data[: -self._most]

    def content(self) -> bytes:
        """Return what is kept."""
        return bytes(self._data[-self._most :] if self._last else self._data)

    @property
    def dropped(self) -> int:
        """How many bytes are not."""
        return max(0, self._total - self._most)


class Log:
    """A file of this host to which a board writes; a full one ends with a line that says so.

    A disk that takes no more, or a reader that has gone, ends the writing and not the writer.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)
        self._room = MOST_LOG - file.stat().st_size if is_file(file) else None

    def write(self, data: bytes) -> None:
        """Write what there is room for."""
        if self._room is None:
            self._put(data)
        elif self._room >= 0:
            self._put(data[: self._room])
            self._room -= len(data)
            if self._room < 0:
                self._put(f"\n(this log holds {MOST_LOG >> 20} MiB; the rest is left out)\n".encode())

    def close(self) -> None:
        """Let go of the file."""
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
    """Return whether that is a file on a disk, or will be one, and no pipe to somebody who reads."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True

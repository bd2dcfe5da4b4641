"""Writes the event log of a command. Nothing that goes wrong here disturbs the command."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Hashable
from contextlib import suppress

from pydantic import ValidationError

from toolchain.errors import ToolchainError
from toolchain.events.counted import is_counted, is_last
from toolchain.events.folder import MOST_BYTES, MOST_LINE, events_folder, new_name, prune
from toolchain.events.lines import (
    LINE,
    BeganLine,
    BoardLine,
    EndLine,
    EventLine,
    Line,
    StepLine,
    TrialLine,
    TurnLine,
)
from toolchain.files.atomic import make_private_folder

_BETWEEN_S = 1.0  # between two lines about the same thing that changes often
_RESERVE = MOST_BYTES // 4  # bytes for lines that matter, once the others are dropped


class EventLog:
    """The event log of the running command; after an error it writes nothing more.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._handle = -1
        self._bytes = 0
        self._written: dict[Hashable, float] = {}
        self._turn = threading.Lock()

    def begin(self, kind: str, title: str, boards: tuple[str, ...] = ()) -> None:
        """Make the file, and remove old ones."""
        with suppress(OSError, ToolchainError, ValidationError):
            began = BeganLine(kind=kind, title=title, boards=boards)
            folder = make_private_folder(events_folder())
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._handle = os.open(folder / new_name(kind), flags, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX)  # a reader holds it for microseconds
            self.write(began)
            prune(folder)

    def write(self, line: Line) -> None:
        """Append a line, unless it says too little for a log that is long, or comes too soon."""
        with self._turn:
            if self._handle < 0 or not self._wanted(line):
                return
            try:
                data = LINE.dump_json(line) + b"\n"
                if len(data) <= MOST_LINE:
                    self._append(data)
            except (OSError, ValueError):  # the disk is full, or a text that is no text
                self._close()

    def end(self, line: EndLine) -> None:
        """Write the last line and close the file; a second call changes nothing."""
        self.write(line)
        with self._turn:
            self._close()

    def _append(self, data: bytes) -> None:
        written = os.write(self._handle, data)
        self._bytes += written
        if written < len(data):  # the reader skips a line that was cut short
            raise OSError("the disk is full")

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _wanted(self, line: EventLine) -> bool:
        if isinstance(line, BeganLine | EndLine):
            return True
        if self._bytes > MOST_BYTES + _RESERVE:
            return False
        if (key := _often(line)) is not None:
            now = time.monotonic()
            if self._bytes > MOST_BYTES or now - self._written.get(key, -_BETWEEN_S) < _BETWEEN_S:
                return False
            self._written[key] = now
        return self._bytes <= MOST_BYTES or _matters(line)


def _often(line: EventLine) -> Hashable | None:
    """Return what a line that comes often is about; None for other lines."""
    if isinstance(line, BoardLine) and not line.done:
        return ("board", line.board, line.state)
    if isinstance(line, StepLine) and is_counted(line.text) and not is_last(line.text):
        return "step"
    return None


def _matters(line: EventLine) -> bool:
    """Whether a line is written to a long log: not each trial, only those that are the best so far."""
    if isinstance(line, TrialLine):
        return line.stage != "search" or (line.ms is not None and line.ms == line.best_ms)
    return not isinstance(line, TurnLine | StepLine)

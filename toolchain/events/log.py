"""Writes the event log of a command. Nothing that goes wrong here disturbs the command."""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from toolchain.configuration.settings import state_dir
from toolchain.errors import ToolchainError
from toolchain.events.counted import is_counted, is_last
from toolchain.events.lines import (
    LINE,
    BeganLine,
    EndLine,
    EventLine,
    Line,
    RolloutLine,
    StepLine,
    TrialLine,
    TurnLine,
)
from toolchain.events.rollouts import BoardMoved, CarrierEvent, ReleaseStored
from toolchain.files.atomic import make_private_folder
from toolchain.files.plain import open_plain

# The folder of event logs: their names, which of them are at work, and how many are kept.

KEPT = 16
"""Number of logs that are kept beside those of commands at work."""

MOST_BYTES = 1 << 20
"""Bytes of a log after which only what matters most is written to it."""

MOST_LINE = 1 << 19
"""Largest length of a line in bytes."""

_CLOCK_STEP = timedelta(seconds=60)  # by which a clock may be set back while commands work

_NAME = re.compile(r"\d{8}T\d{12}-\d{1,10}-[a-z]{1,16}\.jsonl")


def events_folder() -> Path:
    """Return the folder of all event logs."""
    return state_dir() / "events"


def new_name(kind: str) -> str:
    """Return a file name for a log of this process that begins now; names sort by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{os.getpid()}-{kind}.jsonl"


def log_files(folder: Path) -> list[Path]:
    """Return the logs in a folder, the oldest first; other files are ignored.

    A log named for a time that is still to come counts as older than all others: the clock was wrong when it
    began, and it must not push out logs of the present.
    """
    present = f"{datetime.now(UTC) + _CLOCK_STEP:%Y%m%dT%H%M%S%f}"
    try:
        found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []
    return sorted(found, key=lambda path: (path.name <= present, path.name))


def is_at_work(handle: int) -> bool:
    """Whether the command that writes an open log still runs.

    It holds the file's lock, which ends with the process, in a container too.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(handle, fcntl.LOCK_UN)
    return False


def prune(folder: Path) -> None:
    """Remove the oldest logs beyond `KEPT`, but none of a command at work."""
    for path in log_files(folder)[:-KEPT]:
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if not is_at_work(handle):
                    path.unlink()
            finally:
                os.close(handle)


# Reads event logs while they grow. Lines that are cut short, hostile or of another version are skipped.

_MOST_READ = 2 * MOST_BYTES  # of a file; ours are smaller
_MOST_LOGS = 4 * KEPT
_CHUNK = 1 << 18  # bytes of a log that one call reads


@dataclass
class _Followed:
    """How much of a log was read."""

    offset: int = 0
    at: float = 0.0  # the moment of the last line
    rest: bytes = b""
    began: bool = False
    ended: bool = False
    broken: bool = False


@dataclass
class Follower:
    """Reads new lines of all logs in a folder.

    Attributes
    ----------
    folder
        The folder, which may not exist yet.
    """

    folder: Path
    _logs: dict[str, _Followed] = field(default_factory=dict)

    def removed(self) -> list[str]:
        """Forget the logs whose files are gone, and return their names."""
        there = {path.name for path in log_files(self.folder)}
        gone = [name for name in self._logs if name not in there]
        for name in gone:
            del self._logs[name]
        return gone

    def read(self) -> dict[str, list[Line]]:
        """Return the lines since the last call by the names of their logs, the oldest log first.

        Of a long log, a part: call again until nothing comes. A log whose command was killed gets an end, at
        the moment of its last line.
        """
        found: dict[str, list[Line]] = {}
        for path in log_files(self.folder)[-_MOST_LOGS:]:
            followed = self._logs.setdefault(path.name, _Followed())
            if followed.ended or followed.broken:
                continue
            try:
                lines = _read_on(path, followed)
            except OSError:  # it is gone, cannot be read, or is no plain file
                followed.broken = path.exists()
                continue
            if lines:
                found[path.name] = lines
        return found


def _read_on(path: Path, followed: _Followed) -> list[Line]:
    lines: list[Line] = []
    with open_plain(path) as file:
        at_work = is_at_work(file.fileno())  # asked first: what it writes before it ends is read below
        file.seek(followed.offset)
        while not lines and (data := file.read(min(_CHUNK, _MOST_READ - followed.offset))):
            followed.offset += len(data)
            *complete, rest = (followed.rest + data).split(b"\n")
            followed.rest = rest[: MOST_LINE + 1]  # a longer line is skipped at its end
            lines += [
                line for each in complete if (line := _parse(each)) is not None and _fits(line, followed)
            ]
        size = os.fstat(file.fileno()).st_size
    everything = followed.offset >= min(size, _MOST_READ)
    if everything and not at_work and followed.began and not followed.ended:
        followed.ended = True
        lines.append(EndLine(at=followed.at, how="killed"))  # when it was killed, nobody has seen
    return lines


def _parse(data: bytes) -> Line | None:
    if len(data) > MOST_LINE:
        return None
    try:
        return LINE.validate_json(data)
    except ValidationError:
        return None


def _fits(line: Line, followed: _Followed) -> bool:
    """Whether a line is where it may be: nothing before the beginning, nothing after the end."""
    if followed.ended or isinstance(line, BeganLine) == followed.began:
        return False
    followed.began = True
    followed.at = line.at
    followed.ended = isinstance(line, EndLine)
    return True


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

    def write_rollout(self, event: CarrierEvent) -> None:
        """Append an event of a rollout, as `write` does."""
        if not isinstance(event, ReleaseStored):
            with suppress(ValueError):  # a line that no reader would accept
                self.write(RolloutLine(rollout=event))

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
    if isinstance(line, RolloutLine) and isinstance(line.rollout, BoardMoved):
        return ("board", line.rollout.board, line.rollout.step)
    if isinstance(line, StepLine) and is_counted(line.text) and not is_last(line.text):
        return "step"
    return None


def _matters(line: EventLine) -> bool:
    """Whether a line is written to a long log: not each trial, only those that are the best so far."""
    if isinstance(line, TrialLine):
        return line.stage != "search" or (line.ms is not None and line.ms == line.best_ms)
    return not isinstance(line, TurnLine | StepLine)

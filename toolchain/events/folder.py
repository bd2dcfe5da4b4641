"""The folder of event logs: their names, which of them are at work, and how many are kept."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from toolchain.configuration.settings import state_dir

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

"""Lock files, so that one process at a time does something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from toolchain.errors import ToolchainError
from toolchain.files.atomic import cannot_write, make_folder


@contextmanager
def one_at_a_time(
    file: Path, seconds: float, doing: str, waiting: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Hold a lock file while the block runs.

    Parameters
    ----------
    file
        The lock file; created if it is missing, as is its folder.
    seconds
        How long to wait for another process that holds the lock.
    doing
        What the holder does, for the error message, such as `making FILE`.
    waiting
        Called once if another process holds the lock.

    Raises
    ------
    ToolchainError
        Another process still holds the lock, or the folder cannot be written.
    """
    lock = filelock.FileLock(file)
    try:
        make_folder(file.parent)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            waiting()
            lock.acquire(timeout=seconds)
    except filelock.Timeout as error:
        raise ToolchainError(
            f"another process has been {doing} for {seconds:g} s",
            "wait for it to end, or end it; then try again",
        ) from error
    except OSError as error:
        raise cannot_write(file, error) from error
    try:
        yield
    finally:
        lock.release()

"""One process at a time: locks of files, and what is said of who holds them for too long."""

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
    """Hold a lock while the block runs.

    Parameters
    ----------
    file
        The lock's; made if it is not there, as is its folder.
    seconds
        How long another process may hold it.
    doing
        What that one does, for the error, such as `making FILE`.
    waiting
        Called once if there is another one.

    Raises
    ------
    ToolchainError
        Another process still holds it, or its folder cannot be written.
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

"""Locks, so that one process at a time does something."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from toolchain.errors import ToolchainError
from toolchain.files.atomic import cannot_write, make_folder

TURN_S = 60.0
"""How long to wait for another process that writes a small file."""

_LOOK_AGAIN_S = 0.02


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
        raise _still_held(doing, seconds) from error
    except OSError as error:
        raise cannot_write(file, error) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def folder_turn(folder: Path, seconds: float, doing: str) -> Iterator[None]:
    """Hold a folder's own lock while the block runs; no file is left in it.

    Parameters
    ----------
    folder
        The folder in which a lock file would be in the way; made if it is missing.
    seconds, doing
        As of `one_at_a_time`.

    Raises
    ------
    ToolchainError
        Another process still holds the lock, or the folder cannot be read.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        until = time.monotonic() + seconds
        while not _locked(handle):
            if time.monotonic() >= until:
                raise _still_held(doing, seconds)
            time.sleep(_LOOK_AGAIN_S)
        yield
    finally:
        os.close(handle)  # which unlocks it


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still_held(doing: str, seconds: float) -> ToolchainError:
    return ToolchainError(
        f"another process has been {doing} for {seconds:g} s", "wait for it to end, or end it; then try again"
    )

"""Scratch folders in the machine's temporary folder, which are always removed.

All are in one folder per user. A process locks its scratch folder and removes it at the end. Folders left by
killed processes are removed by the next process that makes one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolchain.errors import MissingError, ToolchainError

_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield an empty folder and remove it afterwards.

    Raises
    ------
    MissingError
        This machine has no writable temporary folder.
    ToolchainError
        The temporary folder is full.
    """
    folder: Path | None = None
    handle = -1
    try:
        try:
            with _own_folder() as above:
                folder = Path(tempfile.mkdtemp(dir=above))
                handle = _lock(folder, fcntl.LOCK_EX)
            yield folder
        except OSError as error:
            if error.errno in _REFUSALS and _is_about(folder, error):
                where = folder.parent if folder else tempfile.gettempdir()
                raise ToolchainError(
                    f"the temporary folder {where} cannot be written: {error.strerror}",
                    "free some space there, or set TMPDIR to another folder",
                ) from error
            raise
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if handle >= 0:
            os.close(handle)


@contextmanager
def _own_folder() -> Iterator[Path]:
    """Yield this user's folder of scratch folders, locked and with leftovers removed."""
    try:
        temporary = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise MissingError(
            f"there is no temporary folder that can be written: {error.strerror or error}",
            "set TMPDIR to a folder that you can write",
        ) from error
    above = temporary / f"edge-toolchain-{os.geteuid()}"
    with suppress(FileExistsError):
        above.mkdir(mode=0o700)
    status = above.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        yield temporary  # another user took the name, so there is nothing of ours to remove
        return
    handle = _lock(above, fcntl.LOCK_EX)
    try:
        for left in above.iterdir():
            _remove_if_left(left)
        yield above
    finally:
        os.close(handle)


def _lock(folder: Path, how: int) -> int:
    """Lock a folder; return the handle that holds the lock until it is closed or the process ends."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, how)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _remove_if_left(folder: Path) -> None:
    try:
        handle = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its process is alive, or the folder was removed meanwhile
        return
    shutil.rmtree(folder, ignore_errors=True)
    os.close(handle)


def _is_about(folder: Path | None, error: OSError) -> bool:
    """Whether an error concerns a file in the folder; also if it names no file, as for failed writes."""
    return error.filename is None or folder is None or Path(str(error.filename)).is_relative_to(folder.parent)

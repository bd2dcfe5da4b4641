"""Opens files that a user hands over, and refuses anything but regular files.

Opening a pipe blocks until a writer appears, a device may never end, and a sparse file of a few kilobytes may
read as gigabytes.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from toolchain.errors import UsageError

HOLES = 2**28
"""Bytes of holes that are always accepted: copy tools make holes of runs of zeros, such as unused weights."""

_KINDS = {
    stat.S_IFDIR: "it is a folder",
    stat.S_IFIFO: "it is a pipe",
    stat.S_IFSOCK: "it is a socket",
    stat.S_IFCHR: "it is a device",
    stat.S_IFBLK: "it is a device",
}


def expanded(path: Path | str) -> Path:
    """Return a path with the home folder for `~`; that of an unknown user stays, and leads to no file."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def open_plain(path: Path, *, links: bool = True) -> BinaryIO:
    """Open a regular file for reading.

    Parameters
    ----------
    links
        Whether a symbolic link is followed; in a foreign folder a link could lead out of it.

    Raises
    ------
    OSError
        It cannot be opened, is not a regular file, or consists mostly of holes; `strerror` says which.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW))
    except OSError as error:
        if not links and error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link, not a plain file", str(path)) from error
        raise
    except ValueError as error:  # the name contains a NUL
        raise OSError(errno.EINVAL, "no file has such a name", str(path)) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "it is something else")
            raise OSError(errno.EINVAL, f"{kind}, not a plain file", str(path))
        stored = _stored(handle, status.st_size)
        if status.st_size - stored > HOLES + stored:
            raise OSError(
                errno.EFBIG,
                f"{stored} bytes are stored of its {status.st_size}, the rest is holes",
                str(path),
            )
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_plain(path: Path) -> bytes:
    """Return the content of a file; errors as of `open_plain`."""
    with open_plain(path) as file:
        return file.read()


def read_limited(path: Path, most: int, what: str, made_by: str = "") -> bytes:
    """Return the content of a file of at most `most` bytes; `made_by` tells how such a file is made.

    Raises
    ------
    UsageError
        It is missing, unreadable, not a plain file, or larger.
    """
    try:
        with open_plain(path) as file:
            data = file.read(most + 1)
    except OSError as error:
        hint = f"give the file that holds {what}" + (f"; {made_by}" if made_by else "")
        raise UsageError(f"cannot read {what} {path}: {error.strerror}", hint) from error
    if len(data) > most:
        raise UsageError(f"{path} has more than {most} bytes, too many for {what}", "give another file")
    return data


def _stored(handle: int, size: int) -> int:
    """Return how many bytes of a file are stored, without holes; all if the file system has no holes."""
    if size <= HOLES:
        return size
    stored = position = 0
    try:
        while position < size:
            start = os.lseek(handle, position, os.SEEK_DATA)
            position = os.lseek(handle, start, os.SEEK_HOLE)
            stored += position - start
    except OSError as error:
        if error.errno != errno.ENXIO:  # there is no more data
            return size
    finally:
        os.lseek(handle, 0, os.SEEK_SET)
    return stored

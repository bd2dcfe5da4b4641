"""Files that somebody hands over: plain ones are opened, whatever else has such a name is refused.

Opening a pipe waits for a writer, a device may never end, and a file of a few kilobytes with holes may be
gigabytes to read.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

HOLES = 2**28
"""Bytes that may be holes in any case: tools that copy leave out runs of zeros, such as unused weights."""

_KINDS = {
    stat.S_IFDIR: "it is a folder",
    stat.S_IFIFO: "it is a pipe",
    stat.S_IFSOCK: "it is a socket",
    stat.S_IFCHR: "it is a device",
    stat.S_IFBLK: "it is a device",
}


def open_plain(path: Path) -> BinaryIO:
    """Open a file to read it.

    Raises
    ------
    OSError
        It cannot be opened, is no plain file, or consists of holes; `strerror` says which.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # a NUL in its name
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
    """Return what a file holds; errors as of `open_plain`."""
    with open_plain(path) as file:
        return file.read()


def _stored(handle: int, size: int) -> int:
    """Return how many bytes of a file are data; where a file system knows no holes, all are."""
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

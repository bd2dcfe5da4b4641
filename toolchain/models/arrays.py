"""Arrays in `.npy` files."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from toolchain.errors import UsageError
from toolchain.files.plain import open_plain

_MOST_HEADER = 10_000  # bytes; as numpy's own


def read_array(file: Path, option: str) -> np.ndarray:
    """Return the array of a `.npy` file, in C order and native byte order.

    Raises
    ------
    UsageError
        The file cannot be read, is no `.npy`, or holds Python objects.
    """
    how = "write it by numpy.save(FILE, array)"
    if not file.is_file():
        raise UsageError(f"{option}: {file}: {'not a file' if file.exists() else 'no such file'}", how)
    try:
        with open_plain(file) as opened:
            start = opened.read(12)
        if start[:6] != b"\x93NUMPY":
            raise UsageError(f"{option}: {file} is not a .npy file", how)
        if start[6:7] != b"\1" and int.from_bytes(start[8:], "little") > _MOST_HEADER:
            raise ValueError("its header is too long")  # numpy would take that memory before it looks
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # of a size beyond 64 bits numpy says no more
            # Mapped, the header's shape is checked against the file's size before memory is taken.
            mapped = np.load(file, mmap_mode="r", allow_pickle=False)
            return np.array(mapped, dtype=mapped.dtype.newbyteorder("="), order="C")
    except UsageError:
        raise
    except Exception as error:  # a header is a Python expression: numpy meets bad ones with any error
        said = error.strerror if isinstance(error, OSError) else str(error)
        reason = said or type(error).__name__
        if "Object arrays" in reason or "object" in reason:
            raise UsageError(f"{option}: {file} holds Python objects, not numbers", how) from error
        raise UsageError(f"{option}: {file} cannot be read: {reason}", how) from error

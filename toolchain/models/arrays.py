"""Arrays in `.npy` files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toolchain.errors import UsageError
from toolchain.plain_files import open_plain


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
            if opened.read(6) != b"\x93NUMPY":
                raise UsageError(f"{option}: {file} is not a .npy file", how)
        # Mapped, the header's shape is checked against the file's size before memory is taken.
        mapped = np.load(file, mmap_mode="r", allow_pickle=False)
        return np.array(mapped, dtype=mapped.dtype.newbyteorder("="), order="C")
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if "Object arrays" in reason or "object" in reason:
            raise UsageError(f"{option}: {file} holds Python objects, not numbers", how) from error
        raise UsageError(f"{option}: {file} cannot be read: {reason}", how) from error

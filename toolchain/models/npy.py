"""Arrays in `.npy` files."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from toolchain.errors import UsageError
from toolchain.files.plain import open_plain

_MOST_HEADER = 10_000  # bytes; as numpy's own
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (
        3,
        0,
    ): np.lib.format.read_array_header_2_0,  # differs only in the encoding of field names
}


def read_array(file: Path, option: str) -> np.ndarray:
    """Return the array of a `.npy` file, in C order and native byte order.

    Raises
    ------
    UsageError
        The file cannot be read, is not a `.npy` file, or contains Python objects.
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
            raise ValueError("its header is too long")  # numpy would allocate it before checking
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # for files that Python 2 wrote
            _check_shape(file)
            warnings.simplefilter("error", RuntimeWarning)  # numpy's only sign of a size beyond 64 bits
            # Mapped, the header's shape is checked against the file's size before memory is taken.
            mapped = np.load(file, mmap_mode="r", allow_pickle=False)
            return np.array(mapped, dtype=mapped.dtype.newbyteorder("="), order="C")
    except UsageError:
        raise
    except Exception as error:  # the header is a Python expression, and numpy raises any error for a bad one
        said = error.strerror if isinstance(error, OSError) else str(error)
        reason = said or type(error).__name__
        if "Object arrays" in reason or "object" in reason:
            raise UsageError(f"{option}: {file} holds Python objects, not numbers", how) from error
        raise UsageError(f"{option}: {file} cannot be read: {reason}", how) from error


def _check_shape(file: Path) -> None:
    """Refuse negative extents: numpy takes -1 for "the rest", and may then divide by zero."""
    with open_plain(file) as opened:
        version = np.lib.format.read_magic(opened)
        if (read := _HEADERS.get(version)) is None:
            raise ValueError(f"its format is {'.'.join(map(str, version))}, which numpy does not write")
        shape, _, _ = read(opened)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"its shape is {list(shape)}")

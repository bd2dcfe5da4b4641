"""Reads arrays that edge-rt and peers wrote, and compares them with the expected output, as `verify` does."""

from __future__ import annotations

import array
import ast
import math
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

_LEAST, _LEAST_SPREAD = 1e-30, 1e-3
_MOST = 64 * 2**20


def floats(data: bytes) -> array.array[float]:
    """Return little-endian float32 numbers.

    Raises
    ------
    ValueError
        The data ends within a number.
    """
    numbers = array.array("f")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def read_npz(file: Path) -> array.array[float]:
    """Return the numbers of the only array in a file of edge-rt.

    Raises
    ------
    ValueError
        It has several arrays, or not of float32.
    OSError, zipfile.BadZipFile
        It cannot be read.
    """
    with zipfile.ZipFile(file) as opened:
        (member,) = opened.infolist()
        if member.file_size > _MOST:
            raise ValueError(f"an output of {member.file_size} bytes")
        data = opened.read(member)
    if data[:6] != b"\x93NUMPY" or data[6] != 1:
        raise ValueError("an output is no array of numpy's")
    begin = 10 + int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10:begin].decode("latin1"))
    if header["descr"] != "<f4" or header["fortran_order"]:
        raise ValueError(f"an output of type {header['descr']}")
    return floats(data[begin:])


def error_of(output: array.array[float], expected: array.array[float], classes: int, softmax: bool) -> float:
    """Return max|y - r| / max|r|, for a softmax as `verify` does; infinity if y is not finite.

    Parameters
    ----------
    classes
        Extent of the last axis.

    Raises
    ------
    ValueError
        They have different sizes.
    """
    if len(output) != len(expected):
        raise ValueError(f"{len(output)} numbers where {len(expected)} are expected")
    if not all(map(math.isfinite, output)):
        return math.inf
    values, largest = _difference(output, expected)
    if not softmax:
        return _relative(values, largest)
    logarithms, spread = _logarithms(output, expected, classes)
    return max(_relative(logarithms, spread), _relative(values, largest * (1 + 2 * spread)))


def _difference(y: Sequence[float], r: Sequence[float]) -> tuple[float, float]:
    return max(abs(y[i] - r[i]) for i in range(len(r))), max(map(abs, r))


def _relative(error: float, scale: float) -> float:
    if error == 0:
        return 0.0
    return error / scale if scale else math.inf


def _logarithms(y: array.array[float], r: array.array[float], classes: int) -> tuple[float, float]:
    """Return the largest difference of centred logarithms, and the spread of the expected ones."""
    worst, worst_of_zeros, spread = 0.0, 0.0, _LEAST_SPREAD
    for begin in range(0, len(r), classes):
        row = range(begin, begin + classes)
        counted = [i for i in row if r[i] > 0]
        mean, expected_mean = (
            math.fsum(_logarithm(each[i]) for i in counted) / max(len(counted), 1) for each in (y, r)
        )
        for i in row:
            exact = _logarithm(r[i]) - expected_mean
            error = abs(_logarithm(y[i]) - mean - exact)
            if r[i] > 0:
                worst, spread = max(worst, error), max(spread, abs(exact))
            else:
                worst_of_zeros = max(worst_of_zeros, error)
    return max(worst, worst_of_zeros * spread / max(spread, -math.log(_LEAST))), spread


def _logarithm(probability: float) -> float:
    return math.log(max(probability, _LEAST))

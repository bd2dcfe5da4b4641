"""Reads arrays that edge-rt and peers wrote, and compares them with the expected output, as `verify` does."""

from __future__ import annotations

import array
import ast
import math
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

_LEAST = 1e-30
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
    logarithms, spread = _difference(_logarithms(output, classes), _logarithms(expected, classes))
    return max(_relative(logarithms, spread), _relative(values, largest * (1 + 2 * spread)))


def _difference(y: Sequence[float], r: Sequence[float]) -> tuple[float, float]:
    return max(abs(y[i] - r[i]) for i in range(len(r))), max(map(abs, r))


def _relative(error: float, scale: float) -> float:
    if error == 0:
        return 0.0
    return error / scale if scale else math.inf


def _logarithms(probabilities: array.array[float], classes: int) -> list[float]:
    found: list[float] = []
    for begin in range(0, len(probabilities), classes):
        row = [math.log(max(each, _LEAST)) for each in probabilities[begin : begin + classes]]
        mean = math.fsum(row) / len(row)
        found += [each - mean for each in row]
    return found

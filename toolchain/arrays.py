"""The type of a numpy array of any shape and element type; a product that is the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Matrix: TypeAlias = Sequence[Sequence[Fraction]]

_AT_ONCE = 1 << 15  # matrices, so that their doubles take no more than some megabytes


def transformed(value: Array, left: Matrix, right: Matrix) -> Array:
    """Return left X right^T of each matrix X in the last two axes, with the same bits on every machine.

    Sums are of doubles in the order of the taps, first down the columns of X, then along its rows, and each
    result is rounded once, to float32. `np.matmul` promises no order, and its libraries fuse products with
    sums. edge-rt computes the same (native/src/offline/operand.cc).

    Parameters
    ----------
    value
        Shape (…, h, w).
    left, right
        Shapes (R, h) and (C, w); the result has the shape (…, R, C).
    """
    if type(value).__array_function__ is not np.ndarray.__array_function__:  # what notes the steps of packing
        noted: Array = value.__array_function__(transformed, (type(value),), (value, left, right), {})
        return noted
    *before, high, wide = value.shape
    columns, rows = _doubles(left), _doubles(right)
    taps = value.reshape(-1, high, wide).transpose(1, 2, 0)
    made = np.empty((len(columns), len(rows), taps.shape[2]), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for begin in range(0, taps.shape[2], _AT_ONCE):
            part = taps[..., begin : begin + _AT_ONCE].astype(np.float64)
            half = _product(columns, part).swapaxes(0, 1)
            made[..., begin : begin + _AT_ONCE] = _product(rows, half).swapaxes(0, 1)
    return made.transpose(2, 0, 1).reshape(*before, len(columns), len(rows))


def _doubles(matrix: Matrix) -> Array:
    return np.array([[number.numerator / number.denominator for number in row] for row in matrix])


def _product(matrix: Array, values: Array) -> Array:
    """Return a matrix times vectors, along the first axis of `values`, summed in the order of the taps."""
    total: Array = np.multiply.outer(matrix[:, 0], values[0])
    for tap in range(1, len(values)):
        total += np.multiply.outer(matrix[:, tap], values[tap])
    return total

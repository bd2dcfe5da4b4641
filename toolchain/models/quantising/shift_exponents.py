"""Chooses exponents (2**exponent is an integer's least significant bit); limits of VTA's ALU for them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from toolchain.arrays import Array

# Limits of VTA's ALU, which quantised networks are made to fit; other layers are refused.

LEAST_RIGHT, MOST_RIGHT = 1, 15
"""Range of right shifts of sums: at least one bit, for rounding; at most the ALU's largest shift per lane."""

MOST_DIAGONAL = 6
"""Largest exponent of a power of two by which a residual is multiplied in int8: 2**7 does not fit."""

MOST_COMMON = 15
"""Largest common left shift of a residual: the limit of the ALU's immediate."""


HIGH = 127
"""Largest magnitude of an 8-bit value; -128 is not used, so that every value has a negative."""

_FINER = 4
"""Number of exponents to try below that of the largest magnitude: the last one clips to a 16th of the range,
which never was the best."""

_OF_NOTHING = -7
"""The exponent of a tensor of zeros."""


def rounded(values: Array, exponent: int | Array) -> Array:
    """Return values divided by 2**exponent as integers, rounded with halves upwards and clipped to 8 bits."""
    steps = np.floor(np.ldexp(values, -np.asarray(exponent)) + values.dtype.type(0.5))
    return np.asarray(np.clip(steps, -HIGH, HIGH))


def covering(values: Array) -> int:
    """Return the smallest exponent at which no value is clipped by more than half a step."""
    largest = float(np.abs(values).max(initial=0))
    return math.ceil(math.log2(largest / (HIGH + 0.5))) if largest > 0 else _OF_NOTHING


class ExponentSearch:
    """Finds the exponent of a tensor with the least squared rounding error over several images.

    It sees each image's values twice: `widen` takes all of them, then `add`. It keeps none.
    """

    def __init__(self) -> None:
        self._covering: set[int] = set()
        self._errors: dict[int, float] = {}

    def widen(self, values: Array) -> None:
        """Extend the exponents to try so that one of them covers an image's values."""
        self._covering.add(covering(values))

    def add(self, values: Array) -> None:
        """Count an image's rounding error at each exponent that is tried."""
        most = max(self._covering)
        for exponent in range(most, most - _FINER - 1, -1):
            error = float(_squared_error(values.reshape(1, -1), exponent)[0])
            self._errors[exponent] = self._errors.get(exponent, 0.0) + error

    @property
    def best(self) -> int:
        """The exponent with the least error; of equal ones the largest."""
        return min(self._errors, key=self._errors.__getitem__)


class Weights:
    """The weights of a convolution, with the rounding error of each output channel at each exponent."""

    def __init__(self, weight: Array) -> None:
        self._rows = weight.reshape(len(weight), -1)
        self._covering = np.array([covering(row) for row in self._rows])
        self._errors: dict[int, Array] = {}

    def best(self, least: int, most: int) -> tuple[Array, float]:
        """Return the best exponent for each channel, and the total rounding error.

        Parameters
        ----------
        least, most
            The range of exponents.
        """
        tried = [np.clip(self._covering - finer, least, most) for finer in range(3)]
        errors = np.array([self._of(exponents) for exponents in tried])
        picked = errors.argmin(axis=0)
        return np.choose(picked, tried), float(errors.min(axis=0).sum())

    def given(self, exponents: Array, least: int, most: int) -> tuple[Array, float]:
        """Return given exponents clamped to a range, and the total rounding error of the weights."""
        clipped = np.clip(exponents, least, most)
        return clipped, float(self._of(clipped).sum())

    def shared(self) -> Array:
        """Return one exponent for all channels: the next power of two above the largest weight, over 128."""
        largest = float(np.abs(self._rows).max(initial=0))
        exponent = math.ceil(math.log2(largest)) - 7 if largest > 0 else _OF_NOTHING
        return np.full(len(self._rows), exponent)

    def _of(self, exponents: Array) -> Array:
        errors = np.empty(len(exponents))
        for exponent in np.unique(exponents):
            if exponent not in self._errors:
                self._errors[exponent] = _squared_error(self._rows, int(exponent))
            here = exponents == exponent
            errors[here] = self._errors[exponent][here]
        return errors


Choose = Callable[[Weights, int, int], tuple[Array, float]]
"""Chooses the exponents of the weights by output channel within a range; returns them and the total error."""


def finest(weights: Weights, least: int, most: int) -> tuple[Array, float]:
    """Choose for each channel the exponent with the least error."""
    return weights.best(least, most)


def one_for_all(weights: Weights, least: int, most: int) -> tuple[Array, float]:
    """Choose one exponent for a convolution from its largest weight, as TVM's tutorials did."""
    return weights.given(weights.shared(), least, most)


def _squared_error(rows: Array, exponent: int) -> Array:
    """Return the rounding error of each row: the sum of squared differences."""
    difference = np.ldexp(rounded(rows, exponent), exponent) - rows
    return np.asarray(np.einsum("ij,ij->i", difference, difference, dtype=np.float64))

"""Which power of two the least bit of a value stands for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from toolchain.models.quantising.reading import Array

HIGH = 127
"""Largest magnitude of an 8-bit value; -128 is left out, so that a value and its negative both exist."""

_FINER = 4
"""How many powers of two below that of the largest magnitude are tried: values in 16 times the range are
clipped then, which never paid."""

_OF_NOTHING = -7
"""The exponent of zeros alone."""


def rounded(values: Array, exponent: int | Array) -> Array:
    """Return values in steps of 2**exponent as whole numbers, halves upwards, clipped to 8 bits."""
    steps = np.floor(np.ldexp(values, -np.asarray(exponent)) + values.dtype.type(0.5))
    return np.asarray(np.clip(steps, -HIGH, HIGH))


def covering(values: Array) -> int:
    """Return the least exponent at which no value is clipped by more than half a step."""
    largest = float(np.abs(values).max(initial=0))
    return math.ceil(math.log2(largest / (HIGH + 0.5))) if largest > 0 else _OF_NOTHING


def best_exponent(arrays: Sequence[Array]) -> int:
    """Return the exponent at which values, of several images, lose least when they are rounded."""
    most = max(covering(array) for array in arrays)
    return min(
        range(most, most - _FINER - 1, -1),
        key=lambda exponent: sum(
            float(_squared_error(array.reshape(1, -1), exponent)[0]) for array in arrays
        ),
    )


class Weights:
    """The weights of a convolution, and what each output channel loses at each exponent."""

    def __init__(self, weight: Array) -> None:
        self._rows = weight.reshape(len(weight), -1)
        self._covering = np.array([covering(row) for row in self._rows])
        self._errors: dict[int, Array] = {}

    def best(self, least: int, most: int) -> tuple[Array, float]:
        """Return the exponent of each channel at which it loses least, and the sum of what all lose.

        Parameters
        ----------
        least, most
            What exponents may be.
        """
        tried = [np.clip(self._covering - finer, least, most) for finer in range(3)]
        errors = np.array([self._of(exponents) for exponents in tried])
        picked = errors.argmin(axis=0)
        return np.choose(picked, tried), float(errors.min(axis=0).sum())

    def given(self, exponents: Array, least: int, most: int) -> tuple[Array, float]:
        """Return exponents within bounds, and what the weights lose by them."""
        clipped = np.clip(exponents, least, most)
        return clipped, float(self._of(clipped).sum())

    def shared(self) -> Array:
        """Return one exponent for all: that of the next power of two above the largest, over 128 steps."""
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
"""Returns the exponents of the weights by output channel, between bounds, and what they lose."""


def finest(weights: Weights, least: int, most: int) -> tuple[Array, float]:
    """Choose for each channel what loses least."""
    return weights.best(least, most)


def one_for_all(weights: Weights, least: int, most: int) -> tuple[Array, float]:
    """Choose one exponent for a convolution by its largest weight, as TVM's tutorials did."""
    return weights.given(weights.shared(), least, most)


def _squared_error(rows: Array, exponent: int) -> Array:
    """Return what rounding costs each row: the sum of squared differences."""
    difference = np.ldexp(rounded(rows, exponent), exponent) - rows
    return np.asarray(np.einsum("ij,ij->i", difference, difference, dtype=np.float64))

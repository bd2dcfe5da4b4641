"""Numbers that this host and a board draw alike, bit for bit (native/src/offline/operand.cc has the same).

A number is a hash of its place, so any part of an array can be made alone, and a plan names an array in a few
words. numpy's generators would be a page of C++ on the board.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from toolchain.arrays import Array

TYPES = ("float32", "float16")
LEAST_EXPONENT, MOST_EXPONENT = -16, 8
_AT_ONCE = 1 << 20  # numbers, so that those in between take no more than some megabytes
_THIRD, _MIDDLE = (1 << 18) - 1, 393214
_ZEROS, _LARGE = 64, 252  # of 256: a quarter of the numbers are zeros, one in 64 is large
_WEYL = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Draw:
    """An array of drawn numbers: about normally distributed, as a sum of three uniform ones is.

    They have 20 bits, in float16 11, so that both types hold them exactly, and none beyond three deviations.

    Attributes
    ----------
    dtype
        One of `TYPES`.
    exponent
        The standard deviation is two to this power.
    edges
        Whether a quarter of the numbers are zeros, as after a ReLU or in a padded image, and one in 64 is 64
        times as large (8 times in float16: its largest number is 65504, and sums have thousands).
    """

    dtype: str
    shape: tuple[int, ...]
    seed: int
    exponent: int = 0
    edges: bool = False

    @property
    def shared(self) -> bool:
        """Whether boards draw it, too: it has numbers, at most a gigabyte and 16 axes."""
        return len(self.shape) <= 16 and 0 < math.prod(self.shape) * np.dtype(self.dtype).itemsize <= 1 << 30

    def values(self) -> Array:
        """Return the numbers."""
        count = math.prod(self.shape)
        values = np.empty(count, self.dtype)
        for begin in range(0, count, _AT_ONCE):
            end = min(count, begin + _AT_ONCE)
            values[begin:end] = self._part(begin, end)  # exact in either type
        return values.reshape(self.shape)

    def _part(self, begin: int, end: int) -> Array:
        half = self.dtype == "float16"
        first = _mixed(np.array([self.seed], np.uint64))[0]
        with np.errstate(over="ignore"):
            bits = _mixed(first + np.arange(begin + 1, end + 1, dtype=np.uint64) * np.uint64(_WEYL))
        numbers = np.full(bits.shape, -_MIDDLE, np.int32)
        for place in (0, 18, 36):
            numbers += (bits >> np.uint64(place) & np.uint64(_THIRD)).astype(np.int32)
        exponents = np.full(bits.shape, self.exponent - (8 if half else 17), np.int32)
        if half:
            numbers >>= 9
        if self.edges:
            chance = bits >> np.uint64(56)
            numbers[chance < _ZEROS] = 0
            exponents[chance >= _LARGE] += 3 if half else 6
        made: Array = np.ldexp(numbers.astype(np.float32), exponents)
        return made


def _mixed(x: Array) -> Array:
    """Return the bits as the last step of splitmix64 mixes them."""
    with np.errstate(over="ignore"):
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed: Array = x ^ x >> np.uint64(31)
    return mixed

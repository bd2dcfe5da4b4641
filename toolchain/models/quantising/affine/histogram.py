"""Histograms of a tensor's values over many images, collected one image at a time."""

from __future__ import annotations

import math

import numpy as np

from toolchain.arrays import Array

BINS = 4096
"""Bins on each side of zero. The larger side fills at least half of them: eight bins or more for each of 256
integers, so that where a range ends is known to an eighth of a step."""


class Histogram:
    """Counts of values in bins of equal width around zero; the width doubles where values need it.

    Attributes
    ----------
    low, high
        The smallest and the largest value; both are 0 before any.
    """

    def __init__(self) -> None:
        self.low = self.high = 0.0
        self._exponent: int | None = None
        self._counts = np.zeros(2 * BINS, np.int64)

    def add(self, values: Array) -> None:
        """Count finite values; zeros are not counted, because every scale represents them exactly."""
        if not values.size:
            return
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))
        largest = max(-self.low, self.high)
        if not largest:
            return
        needed = math.frexp(largest)[1] - int(math.log2(BINS))
        if self._exponent is None:
            self._exponent = needed
        while self._exponent < needed:
            self._merge()
        places = np.floor(np.ldexp(values[values != 0].astype(np.float64), -self._exponent)).astype(np.int64)
        # The largest magnitude may be a power of two: the end of the last bin.
        np.clip(places, -BINS, BINS - 1, out=places)
        self._counts += np.bincount(places + BINS, minlength=2 * BINS)

    @property
    def centres(self) -> Array:
        """The middle of each bin, in float64."""
        return np.asarray(np.ldexp(np.arange(-BINS, BINS) + 0.5, self._exponent or 0))

    @property
    def counts(self) -> Array:
        """The number of values in each bin."""
        return self._counts

    def _merge(self) -> None:
        pairs = self._counts.reshape(-1, 2).sum(axis=1)
        self._counts = np.zeros_like(self._counts)
        self._counts[BINS // 2 : -BINS // 2] = pairs
        self._exponent = (self._exponent or 0) + 1

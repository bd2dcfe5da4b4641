"""Chooses the range of values that 256 integers cover, from a histogram."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from toolchain.arrays import Array
from toolchain.models.quantising.affine.histogram import Histogram
from toolchain.models.quantising.affine.scales import TOP

Range = tuple[float, float]
"""Smallest and largest value; 0 is between them."""

KEPT = 0.9999
"""Share of values that `percentile` covers: the middle one of 99.9, 99.99 and 99.999 %, which Wu et al. 2020
(arXiv:2004.09602, table 5) compare; it lost least on most of their networks."""

_SHRINK = tuple(1 - hundredths / 100 for hundredths in range(81))
"""Ends to try, as shares of the largest value; by hundredths, which is finer than a bin at most ends."""

_ROUNDS = 2
"""How often each end is chosen, given the other."""


def whole(histogram: Histogram) -> Range:
    """Return the range of all values."""
    return histogram.low, histogram.high


def percentile(histogram: Histogram) -> Range:
    """Return the range without the outermost values on both sides, 0.01 % in all."""
    counts, centres = histogram.counts, histogram.centres
    total = int(counts.sum())
    if not total:
        return whole(histogram)
    tail = total * (1 - KEPT) / 2
    below = np.cumsum(counts)
    first = int(np.searchsorted(below, tail, "right"))
    last = int(np.searchsorted(below, total - tail, "left"))
    half = float(centres[1] - centres[0]) / 2
    low, high = float(centres[first]) - half, float(centres[last]) + half
    return max(histogram.low, min(low, 0.0)), min(histogram.high, max(high, 0.0))


def least_squares(histogram: Histogram) -> Range:
    """Return the range with the least squared error: of rounding within it, and of clipping beyond it."""
    low, high = whole(histogram)
    used = np.flatnonzero(histogram.counts)
    counts, centres = histogram.counts[used].astype(np.float64), histogram.centres[used]
    if not len(used):
        return low, high
    for _ in range(_ROUNDS if low < 0 < high else 1):
        if high > 0:
            ends = [histogram.high * share for share in _SHRINK]
            high = ends[np.argmin([_squared_error(counts, centres, low, end) for end in ends])]
        if low < 0:
            ends = [histogram.low * share for share in _SHRINK]
            low = ends[np.argmin([_squared_error(counts, centres, end, high) for end in ends])]
    return low, high


def _squared_error(counts: Array, centres: Array, low: float, high: float) -> float:
    """Return the expected squared error; rounding adds a twelfth of a squared step, wherever values lie."""
    beyond = centres - np.clip(centres, low, high)
    rounding = ((high - low) / TOP) ** 2 / 12
    return float(counts @ np.where(beyond == 0, rounding, beyond**2 + rounding))


METHODS: dict[str, Callable[[Histogram], Range]] = {
    "mse": least_squares,
    "minmax": whole,
    "percentile": percentile,
}
"""By the names of `--quantizer`."""

"""Chooses the scales of a plan's tensors by computing the float graph for sample inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from toolchain.arrays import Array
from toolchain.models.quantising.affine.index import Index
from toolchain.models.quantising.affine.plan import IntegerPlan
from toolchain.models.quantising.affine.scales import TOP, Scale, scale_for
from toolchain.models.quantising.calibration import Inputs, Tapped
from toolchain.models.quantising.refusing import check_computed

# Histograms of a tensor's values over many images, collected one image at a time.

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


# Chooses the range of values that 256 integers cover, from a histogram.

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


def calibrate(
    index: Index,
    plan: IntegerPlan,
    shared: Mapping[str, str],
    quantizer: str,
    images: Sequence[Inputs],
    origin: str,
) -> dict[str, Scale]:
    """Return the scale of each rounded tensor.

    What a float layer or a user reads keeps its whole range, whatever the quantizer: clipping the largest
    logits would make them equal.

    Parameters
    ----------
    shared
        Rounded tensor -> the tensor whose values decide its scale.
    quantizer
        A key of `METHODS`.

    Raises
    ------
    UnusableSampleError
        onnxruntime cannot compute the graph for these inputs, or not with finite numbers.
    """
    tapped = Tapped(index.model, set(shared.values()), origin)
    histograms = {name: Histogram() for name in shared.values()}
    for number, inputs in enumerate(images):
        for name, values in tapped.values(inputs).items():
            check_computed(name, values, number, origin)
            histograms[name].add(values)
    read = {shared[name] for name in plan.rounded if _read_as_float(index, plan, name)}
    scales = {
        name: scale_for(*(whole if name in read else METHODS[quantizer])(histogram))
        for name, histogram in histograms.items()
    }
    return {name: scales[source] for name, source in shared.items()}


def _read_as_float(index: Index, plan: IntegerPlan, name: str) -> bool:
    return name in index.outputs or any(at not in plan.roles for at in index.readers.get(name, ()))

"""Scales and zero points of integers, and how they are chosen from the values of sample inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.arrays import Array
from toolchain.models.quantising.affine_plan import Index, IntegerPlan
from toolchain.models.quantising.calibration import Inputs, Tapped, check_computed

# Scales and zero points: which real number an integer stands for.

TOP = 255
"""Largest integer of an activation; the smallest is 0."""

WEIGHT_TOP = 127
"""Largest magnitude of a weight. -128 is not used: two products of it and an activation would not fit 16
bits, in which CPUs without dot products add them."""

LEAST, MOST = 1e-16, 1e16
"""Range of scales. A product of two and a quotient by a third then stay normal numbers of float32."""

BIAS_TOP = 2**22
"""Largest magnitude of a bias in steps of the sums. Sums stay exact in float32 (below 2**24, decision 55),
and products that are so much smaller than the bias are far less than a step of the result."""


@dataclass(frozen=True)
class Scale:
    """Scale of an activation: the integer n represents (n - zero) * step.

    Attributes
    ----------
    step
        A float32, as exact as the graph stores it.
    zero
        The integer that stands for 0.0, from 0 to 255.
    """

    step: float
    zero: int

    def implies(self, low: float, high: float) -> bool:
        """Whether rounding to these integers already clips values to a range, as a Relu or Clip would."""
        step = np.float32(self.step)
        below, above = (np.rint(np.float32(end) / step) + self.zero for end in (low, high))
        return bool(below <= 0 and above >= TOP)


def scale_for(low: float, high: float) -> Scale:
    """Return the scale whose integers cover a range; 0 is always in it, and exact.

    A tensor of zeros gets scale 1.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return Scale(1.0, 0)
    step = float(np.float32(min(max((high - low) / TOP, LEAST), MOST)))
    return Scale(step, int(np.clip(np.rint(-low / step), 0, TOP)))


@dataclass(frozen=True)
class IntegerWeights:
    """Weights and bias of a layer as integers.

    Attributes
    ----------
    weight
        int8, in the shape of the original; from -127 to 127.
    steps
        float32 [out]: scale of each output channel.
    bias
        int32 [out], in steps of the sums: the scale of the input times `steps`.
    """

    weight: Array
    steps: Array
    bias: Array


def integer_weights(weight: Array, bias: Array, axis: int, source: Scale) -> IntegerWeights:
    """Return the integers of a layer's weights and bias.

    Each output channel's scale is its largest weight over 127, or more if its bias needs it.

    Parameters
    ----------
    weight
        float32; `axis` is that of the output channels.
    bias
        float32 [out].
    source
        Scale of the layer's input.
    """
    along = [-1 if place == axis else 1 for place in range(weight.ndim)]
    rest = tuple(place for place in range(weight.ndim) if place != axis)
    largest = np.abs(weight).max(axis=rest, initial=0).astype(np.float64)
    needed = np.abs(bias.astype(np.float64)) / (source.step * BIAS_TOP)
    steps = np.maximum(largest / WEIGHT_TOP, needed)
    steps = np.clip(np.where(steps > 0, steps, 1.0), LEAST, MOST).astype(np.float32)
    rounded = np.rint(weight / steps.reshape(along))
    sums = (np.float32(source.step) * steps).astype(np.float64)
    return IntegerWeights(
        np.clip(rounded, -WEIGHT_TOP, WEIGHT_TOP).astype(np.int8),
        steps,
        np.clip(np.rint(bias / sums), -BIAS_TOP, BIAS_TOP).astype(np.int32),
    )


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
"""Range ends to try, as shares of the largest value, in steps of a hundredth: less than a bin for most."""

_ROUNDS = 2
"""Rounds of the search for the two ends of a range, each given the other."""


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
"""Value of `--quantizer` -> how it chooses the range of a tensor."""


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

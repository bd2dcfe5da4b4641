"""Measures how far an output is from its reference: of a board, of a padded network, of a rewritten one.

The error of an output y with reference r is max|y - r| / max|r|: it is relative to the largest value, so that
rounding errors of small values among large ones are accepted.

Where an output has parts (see `parts_of`), each is relative to its own largest value, and the worst
part's error is the output's: scores to 1 are not hidden by boxes to 640. The scale of a part is at least
`LEAST_SCALE` of the whole output's.

Probabilities need more care: a softmax maps wrong logits to numbers so small that the largest hides them.
Outputs of a softmax are therefore compared as centred log-probabilities, log(max(p, least)) minus its mean
over the last axis, which equal the centred logits, relative to s, the largest of the reference's. The last
axis is the class axis of every classifier; if it is another axis, the log-probabilities are relative to
another mean, and the comparison is no weaker. Where the reference is 0, as of a masked class, its logarithm
is no logit: it counts neither for means nor for s, and differences there are relative to -log(least). s is at
least 1e-3, for float32 has no smaller differences of logits than 1e-6. `least` is 1e-30; of float16 it is
2^-14, below which its numbers lie so far apart that rounding alone changes their logarithms.

Centred logarithms show neither a common factor, such as of a softmax that forgot to divide, nor what is below
0. The probabilities themselves are therefore compared, too, relative to (1 + 2s) max|r|: logits that are off
by d change a probability p by at most 2dp, so that an error of the logits that is allowed stays allowed. The
larger of the two errors is the output's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

import numpy as np

from toolchain.arrays import Array

# Divides outputs into parts that are compared in their own scales.
#
# A detector's output holds boxes in pixels, to 640, and scores, to 1: relative to the largest box, any
# score is as good as any other. An output is therefore divided where the network joins it from several
# tensors (see `models.output_kinds`), and along an axis where it is not joined, if its channels differ much
# in size.

Ends = Mapping[int, tuple[int, ...]]
"""Axis -> where the parts along it end, in rising order; the last one is the axis's extent.

The parts of an output are the boxes of the grid that all axes make together.
"""

CHANNELS_DIFFER = 100
"""Factor between the largest values of two channels of an axis from which on the axis is divided."""

LEAST_SCALE = 1e-4
"""Least scale of a part, relative to the whole output's. With the tolerance of float32 this allows an error
of 1e-7 of the largest value everywhere, which is about its rounding (2^-24)."""

_ALIKE = 10  # largest factor between channels of one part, where parts follow from sizes alone
_FEWEST_VALUES = 8  # of a channel; the largest of fewer values says little about their size


@dataclass(frozen=True)
class ArrayPart:
    """A rectangular part of an output array, which is compared in its own scale.

    Attributes
    ----------
    bounds
        Begin and end on each axis.
    shape
        The whole array's shape.
    """

    bounds: Sequence[Sequence[int]]
    shape: Sequence[int]

    @property
    def slices(self) -> tuple[slice, ...]:
        """The part's index into the array."""
        return tuple(slice(begin, end) for begin, end in self.bounds)

    def __str__(self) -> str:
        """Return the part as Python slices the array, such as `[:, 4:84]`; empty if it is the whole array."""
        pieces = [
            ":" if (begin, end) == (0, extent) else f"{begin}:{end}"
            for (begin, end), extent in zip(self.bounds, self.shape, strict=True)
        ]
        while pieces and pieces[-1] == ":":
            pieces.pop()
        return f"[{', '.join(pieces)}]" if pieces else ""


def parts_of(expected: Array, joined: Ends | None, most: int) -> Ends:
    """Return the parts in which an output is compared; nothing if it is compared as a whole.

    Parameters
    ----------
    expected
        The reference's values.
    joined
        As `joined_parts` has it; None: one tensor.
    most
        Largest number of parts: of more, those that differ least in size are compared together.
    """
    sizes = np.abs(expected.astype(np.float64))
    if not sizes.size or not np.isfinite(sizes).all():
        return {}
    ends = {axis: list(places) for axis, places in (joined or {}).items()}
    largest = [_largest(sizes, axis) for axis in range(sizes.ndim)]
    ratios = {
        axis: _ratio(along)
        for axis, along in enumerate(largest)
        if axis not in ends and sizes.size // len(along) >= _FEWEST_VALUES
    }
    if ratios and max(ratios.values()) > CHANNELS_DIFFER:
        axis = max(ratios, key=lambda axis: ratios[axis])
        ends[axis] = differing_channels(largest[axis])
    while prod(len(places) for places in ends.values()) > most:
        _join_most_alike(ends, largest)
    return {axis: tuple(places) for axis, places in sorted(ends.items()) if len(places) > 1}


def divide(shape: Sequence[int], ends: Ends) -> Iterator[ArrayPart]:
    """Yield each part of an array of this shape."""
    along = [pairwise([0, *ends.get(axis, (extent,))]) for axis, extent in enumerate(shape)]
    for bounds in product(*along):
        yield ArrayPart(bounds, shape)


def part_at(index: Sequence[int], shape: Sequence[int], ends: Ends) -> ArrayPart:
    """Return the part of an array of this shape that has the element at an index."""
    bounds = []
    for axis, (at, extent) in enumerate(zip(index, shape, strict=True)):
        along = pairwise([0, *ends.get(axis, (extent,))])
        bounds.append(next((begin, end) for begin, end in along if at < end))
    return ArrayPart(tuple(bounds), shape)


def part_scales(reference: Array, ends: Ends, least: float = LEAST_SCALE) -> Array:
    """Return what errors are relative to at each place of an output, as an array that broadcasts to it.

    Parameters
    ----------
    reference
        The expected values, finite and at least one.
    least
        Least scale of a part, relative to the whole output's.
    """
    scales = np.abs(reference.astype(np.float64))
    whole = scales.max()
    for axis in range(scales.ndim):
        ends_here = ends.get(axis, (scales.shape[axis],))
        begins = [0, *ends_here[:-1]]
        scales = np.maximum.reduceat(scales, begins, axis=axis)
        if axis in ends:
            scales = np.repeat(scales, np.diff([0, *ends_here]), axis=axis)
    at_least: Array = np.maximum(scales, least * whole)
    return at_least


def differing_channels(largest: Array) -> list[int]:
    """Return the ends of runs of neighbouring channels whose largest values are alike."""
    ends, low, high = [], largest[0], largest[0]
    for at, size in enumerate(largest[1:], 1):
        low, high = min(low, size), max(high, size)
        if high > _ALIKE * low:
            ends.append(at)
            low = high = size
    return [*ends, len(largest)]


def _largest(sizes: Array, axis: int) -> Array:
    """Return the largest value of each channel of an axis."""
    along: Array = sizes.max(axis=tuple(other for other in range(sizes.ndim) if other != axis))
    return along


def _ratio(largest: Array) -> float:
    """Return how far channels differ in size; those of zeros alone do not count."""
    present = largest[largest > 0]
    return float(present.max() / present.min()) if present.size else 1.0


def _join_most_alike(ends: dict[int, list[int]], largest: Sequence[Array]) -> None:
    """Remove that end between two neighbouring parts of an axis whose largest values differ least."""
    ratios = {
        (axis, at): max(one, other) / max(min(one, other), np.finfo(np.float64).tiny)
        for axis, places in ends.items()
        for at, (one, other) in enumerate(pairwise(np.maximum.reduceat(largest[axis], [0, *places[:-1]])))
    }
    axis, at = min(ratios, key=lambda place: ratios[place])
    del ends[axis][at]


_LEAST_PROBABILITY = 1e-30  # representable in float32; smaller probabilities carry no information
_LEAST_OF_HALVES = 2.0**-14  # the smallest number of float16 that has all its digits
_LEAST_SPREAD = 1e-3  # of logits


@dataclass(frozen=True)
class Deviation:
    """The largest error of an output.

    Attributes
    ----------
    index
        Index of the value with the largest error; empty for an output without axes or elements.
    absolute
        The error there: of the values, or of the log-probabilities where these are further off.
    scale
        What the error is relative to.
    part
        The part with the largest error; None if the output was compared as a whole.
    """

    index: tuple[int, ...]
    absolute: float
    scale: float
    part: ArrayPart | None = None

    @property
    def relative(self) -> float:
        """The error relative to its scale; infinite if there is one and the scale is 0."""
        return _relative(self.absolute, self.scale)


def deviation(
    output: Array, reference: Array, ends: Ends, *, softmax: bool = False, coarser: float = 1.0
) -> Deviation:
    """Return how far an output is from its reference.

    Parameters
    ----------
    output, reference
        Finite values of the same shape. Integers that differ are at least 1 apart.
    ends
        Parts of the output that are compared in their own scales; empty: it is one part.
    softmax
        Whether the values are probabilities along the last axis; these have no parts.
    coarser
        Factor on the least scales, for a tolerance that is smaller than float32's by this factor: the error
        that they allow is the rounding of float32, whatever the tolerance.
    """
    difference, scale = _difference(output, reference, softmax, coarser)
    if not difference.size:
        return Deviation((), 0.0, scale)
    if not ends or softmax:
        worst = index_of_largest(difference)
        return Deviation(worst, float(difference[worst]), scale)
    scales = part_scales(reference, ends, LEAST_SCALE * coarser)
    with np.errstate(divide="ignore"):  # the reference may be zero everywhere
        errors = np.divide(difference, scales, out=np.zeros_like(difference), where=difference > 0)
    worst = index_of_largest(errors)
    scale = float(np.broadcast_to(scales, difference.shape)[worst])
    return Deviation(worst, float(difference[worst]), scale, part_at(worst, reference.shape, ends))


def index_of_largest(array: Array) -> tuple[int, ...]:
    """Return the index of the first largest element; an empty tuple for an empty array."""
    if array.size == 0:
        return ()
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(array)), array.shape))


def _difference(output: Array, reference: Array, softmax: bool, coarser: float) -> tuple[Array, float]:
    """Return |y - r| in float64 and its scale; for a softmax of logarithms if these are further off."""
    if not np.issubdtype(reference.dtype, np.inexact):
        unequal = output != reference
        # float64 may round a difference of large integers to zero.
        difference = np.maximum(np.abs(output.astype(np.float64) - reference.astype(np.float64)), unequal)
        return difference, max(1.0, float(np.abs(reference.astype(np.float64)).max(initial=0)))
    y, r = output.astype(np.float64), reference.astype(np.float64)
    values = np.abs(y - r), float(np.abs(r).max(initial=0))
    if not softmax:
        return values
    least = _LEAST_OF_HALVES if reference.dtype == np.float16 else _LEAST_PROBABILITY
    logarithms = _logarithms(y, r, least, coarser)
    probabilities = values[0], values[1] * (1 + 2 * logarithms[1])
    return max(
        logarithms, probabilities, key=lambda error: _relative(float(error[0].max(initial=0)), error[1])
    )


def _relative(error: float, scale: float) -> float:
    if error == 0:
        return 0.0
    return error / scale if scale > 0 else np.inf


def _logarithms(output: Array, reference: Array, least: float, coarser: float) -> tuple[Array, float]:
    """Return the differences of centred logarithms, and the spread of the reference's."""
    counted = reference > 0
    y, r = (_centred(np.log(np.maximum(values, least)), counted) for values in (output, reference))
    spread = max(float(np.abs(r[counted]).max(initial=0)), _LEAST_SPREAD * coarser)
    difference = np.abs(y - r)
    own_scale = max(spread, -np.log(least))
    return np.where(counted, difference, difference * (spread / own_scale)), spread


def _centred(logarithms: Array, counted: Array) -> Array:
    if not logarithms.ndim:
        return logarithms
    total = np.where(counted, logarithms, 0).sum(axis=-1, keepdims=True)
    centred: Array = logarithms - total / np.maximum(counted.sum(axis=-1, keepdims=True), 1)
    return centred

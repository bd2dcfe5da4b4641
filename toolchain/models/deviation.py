"""Measures how far an output is from its reference: of a board, of a padded network, of a rewritten one.

The error of an output y with reference r is max|y - r| / max|r|: it is relative to the largest value, so that
rounding errors of small values among large ones are accepted.

Where an output has parts (see `models.parts`), each is relative to its own largest value, and the worst
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

from dataclasses import dataclass

import numpy as np

from toolchain.arrays import Array
from toolchain.models.parts import LEAST_SCALE, ArrayPart, Ends, part_at, part_scales

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
    """Return |y - r| in float64, and what it is relative to; for a softmax see the module."""
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
    return max(logarithms, probabilities, key=lambda each: _relative(float(each[0].max(initial=0)), each[1]))


def _relative(error: float, scale: float) -> float:
    if error == 0:
        return 0.0
    return error / scale if scale > 0 else np.inf


def _logarithms(output: Array, reference: Array, least: float, coarser: float) -> tuple[Array, float]:
    """Return the differences of centred logarithms, and the spread of the reference's."""
    counted = reference > 0
    y, r = (_centred(np.log(np.maximum(each, least)), counted) for each in (output, reference))
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

"""Divides outputs into parts that are compared in their own scales.

A detector's output holds boxes in pixels, to 640, and scores, to 1: relative to the largest box, any score is
as good as any other. An output is therefore divided where the network joins it from several tensors (see
`models.joints`), and along an axis where it is not joined, if its channels differ much in size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

import numpy as np

from toolchain.arrays import Array

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
    """A box of an array.

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
    ends = {axis: list(each) for axis, each in (joined or {}).items()}
    largest = [_largest(sizes, axis) for axis in range(sizes.ndim)]
    ratios = {
        axis: _ratio(along)
        for axis, along in enumerate(largest)
        if axis not in ends and sizes.size // len(along) >= _FEWEST_VALUES
    }
    if ratios and max(ratios.values()) > CHANNELS_DIFFER:
        axis = max(ratios, key=lambda each: ratios[each])
        ends[axis] = differing_channels(largest[axis])
    while prod(len(each) for each in ends.values()) > most:
        _join_most_alike(ends, largest)
    return {axis: tuple(each) for axis, each in sorted(ends.items()) if len(each) > 1}


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
        for axis, each in ends.items()
        for at, (one, other) in enumerate(pairwise(np.maximum.reduceat(largest[axis], [0, *each[:-1]])))
    }
    axis, at = min(ratios, key=lambda place: ratios[place])
    del ends[axis][at]

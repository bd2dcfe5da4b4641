"""The size of a work group along each axis of a grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

AXES = 3
"""Axes of a grid: OpenCL's minimum CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, and TVM's maximum."""

_EIGHTHS = 8  # idle items are counted in eighths of all; less matters less than what the others read
_FULL = 3 / 4  # share of the allowed items from which on a group counts as full


def group_of(extents: Sequence[int], most: int, wanted: Sequence[int] = ()) -> list[int]:
    """Return the number of work items of a group along each axis.

    Of the groups with the fewest idle items, prefer nearly full ones, and of those the widest along the first
    axes: then values that differ only along the last axis, weights, are read once for the whole group. For a
    convolution of 512 to 512 channels on 7x7 in tiles of 7 columns, a group of 64 channels would read 9 MB of
    weights again for each row.

    Parameters
    ----------
    extents
        Work items along each axis.
    most
        Largest number of work items of a group.
    wanted
        Requested group, limited to the extents; empty to choose one.
    """
    if wanted:
        sizes = [*wanted, *[1] * len(extents)][: len(extents)]
        return [min(size, extent) for size, extent in zip(sizes, extents, strict=True)]

    def worth(sizes: tuple[int, ...]) -> tuple[int, float, tuple[int, ...]]:
        launched = prod(-(-extent // size) * size for extent, size in zip(extents, sizes, strict=True))
        idle = round(_EIGHTHS * (launched / prod(extents) - 1))
        return -idle, min(prod(sizes), _FULL * most), sizes

    best = max(_groups(extents, most), key=worth)
    return list(best)


def _groups(extents: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """Yield the groups to compare: a size that is not a power of two must divide its axis."""
    if not extents:
        yield ()
        return
    first, *rest = extents
    for size in range(1, min(first, most) + 1):
        if first % size == 0 or size & (size - 1) == 0:
            for others in _groups(rest, most // size):
                yield (size, *others)

"""How many work items make a group, along each axis of a grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

AXES = 3
"""Of a grid: OpenCL's least CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, and the most that TVM writes."""

_EIGHTHS = 8  # of all items; fewer that are idle weigh less than where the others read
_FULL = 3 / 4  # of the items of a group, from which on it is


def group_of(extents: Sequence[int], most: int, wanted: Sequence[int] = ()) -> list[int]:
    """Return the work items of a group along each axis.

    Of the groups that leave the fewest items idle those that are nearly full, and of them the one that is
    widest along the first axes: what differs along the last one alone, weights, is then read once for all of
    a group. Of a convolution of 512 to 512 channels on 7x7 in tiles of 7 columns a group of 64 channels would
    read 9 MB of weights for each row anew.

    Parameters
    ----------
    extents
        Work items along each axis.
    most
        Of a group.
    wanted
        Such a group, as far as it goes; empty: as it suits.
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
    """Yield the groups that may be meant: what is no power of two divides its axis."""
    if not extents:
        yield ()
        return
    first, *rest = extents
    for size in range(1, min(first, most) + 1):
        if first % size == 0 or size & (size - 1) == 0:
            for others in _groups(rest, most // size):
                yield (size, *others)

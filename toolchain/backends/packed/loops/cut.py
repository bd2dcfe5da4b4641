"""Divides axes into tiles."""

from __future__ import annotations


def tiles(extent: int, size: int) -> list[tuple[int, int, int]]:
    """Return the full tiles of an axis, and the rest: (start, number of tiles, size)."""
    full, rest = divmod(extent, size)
    return [(0, full, size)] * bool(full) + [(full * size, 1, rest)] * bool(rest)


def shares(extent: int, size: int, unit: int = 1) -> list[tuple[int, int, int]]:
    """Return the fewest parts of at most `size` that cover an axis: about equal, each in whole units.

    Returns
    -------
    list
        (start, number of parts, size) of the larger parts, then of the smaller, which are a unit shorter.
    """
    count = -(-(extent // unit) // max(1, size // unit))
    small, large = divmod(extent // unit, count)
    start = large * (small + 1)
    parts = [(0, large, small + 1), (start, count - large, small)]
    return [(first * unit, many, each * unit) for first, many, each in parts if many]

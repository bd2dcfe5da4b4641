"""Tiles for devices: the sums of a work item, and the number of work items in a group."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import AXES

_LEAST = 0.7  # smallest width of a tile without rest, relative to the widest tile
_ROW = (16, 64)  # least and most items along a row that form a group of their own
_SUMS = (4, 5, 6, 7, 8, 10, 12, 14, 16)  # numbers of sum vectors that a tuner may try


def columns_of(extent: int, limit: int) -> int:
    """Return the columns of a tile: at most `limit`, fewer if that leaves no rest of the row.

    A rest takes a launch of its own.
    """
    dividing = [size for size in range(1, min(extent, limit) + 1) if extent % size == 0]
    best = max(dividing)
    return best if best >= _LEAST * min(extent, limit) else min(extent, limit)


def column_choices(extent: int, blocks: int, machine: Machine) -> Iterator[int]:
    """Yield the column counts of tiles with `blocks` blocks that a tuner may try, without repetition."""
    found = {columns_of(extent, max(1, sums // blocks)) for sums in _SUMS}
    yield from sorted((each for each in found if each <= machine.columns(blocks)), reverse=True)


def group_of_row(items: int, machine: Machine) -> tuple[int, ...]:
    """Return a work group along one row; empty if rows are too short, then the code generator decides.

    All items of such a group have the same row index, which saves registers in each item.
    """
    least, most = _ROW
    fitting = max(each for each in range(1, min(items, machine.group, most) + 1) if items % each == 0)
    return (fitting, 1) if fitting >= least else ()


def group_choices(machine: Machine) -> Iterator[tuple[int, ...]]:
    """Yield the work groups that a tuner may try."""
    yield ()
    for along in (4, 8, 16, 32):
        for across in (1, 4, 8, 16):
            if 16 <= along * across <= machine.group:
                yield (along, across)


def fits(group: tuple[int, ...], machine: Machine) -> bool:
    """Return whether a device accepts a work group; a machine without groups accepts only the empty one."""
    return (
        len(group) <= AXES
        and all(each >= 1 for each in group)
        and (not group or prod(group) <= machine.group)
    )

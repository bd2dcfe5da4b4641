"""Tiles of work items on a device: what one item sums up, and how many items make a group."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from toolchain.backends.packed.loops.groups import AXES
from toolchain.backends.packed.machine import Machine

_LEAST = 0.7  # of the widest tile, down to which one is taken that leaves no rest
_ROW = (16, 64)  # items of a row that make a group alone, from and to
_SUMS = (4, 5, 6, 7, 8, 10, 12, 14, 16)  # vectors of sums that a tuner may try


def columns_of(extent: int, limit: int) -> int:
    """Return the columns of a tile: as many as there may be, fewer where a rest would be left.

    The rest of a row takes a launch of its own.
    """
    dividing = [size for size in range(1, min(extent, limit) + 1) if extent % size == 0]
    best = max(dividing)
    return best if best >= _LEAST * min(extent, limit) else min(extent, limit)


def column_choices(extent: int, blocks: int, machine: Machine) -> Iterator[int]:
    """Yield the columns of tiles that a tuner may try, beside `blocks` of sums, each once."""
    found = {columns_of(extent, max(1, sums // blocks)) for sums in _SUMS}
    yield from sorted((each for each in found if each <= machine.columns(blocks)), reverse=True)


def group_of_row(items: int, machine: Machine) -> tuple[int, ...]:
    """Return a group along a row alone, empty where rows are short: then as it suits.

    The row is the same for all of a group, which leaves each item more registers.
    """
    least, most = _ROW
    fitting = max(each for each in range(1, min(items, machine.group, most) + 1) if items % each == 0)
    return (fitting, 1) if fitting >= least else ()


def group_choices(machine: Machine) -> Iterator[tuple[int, ...]]:
    """Yield the groups of work items that a tuner may try."""
    yield ()
    for along in (4, 8, 16, 32):
        for across in (1, 4, 8, 16):
            if 16 <= along * across <= machine.group:
                yield (along, across)


def fits(group: tuple[int, ...], machine: Machine) -> bool:
    """Whether a device takes a group; a machine without any takes none but the empty one."""
    return (
        len(group) <= AXES
        and all(each >= 1 for each in group)
        and (not group or prod(group) <= machine.group)
    )

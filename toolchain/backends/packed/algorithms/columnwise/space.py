"""The choices of `columnwise`: tiles whose sums fit the registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from toolchain.backends.packed.algorithms.columnwise.choice import ColumnwiseChoice
from toolchain.backends.packed.algorithms.columnwise.cost import loads
from toolchain.backends.packed.algorithms.columnwise.piece import PIECES, bytes_of_window
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution

_MOST_CHANNELS, _MOST_VECTORS, _MOST_ROWS = 8, 8, 32


def default(conv: Convolution, machine: Machine) -> ColumnwiseChoice:
    """Return the tile with the fewest loads per product, in pieces whose inputs fit the cache."""
    tiles = [_tile(conv, machine, channels) for channels in _channels(conv)]
    best = min(tiles, key=lambda tile: (loads(tile, machine, conv.dtype), -tile.channels))
    return replace(best, rows=_rows(conv, best, machine))


def candidates(conv: Convolution, machine: Machine) -> list[ColumnwiseChoice]:
    """Return the choices that a tuner may measure, the default first."""
    first = default(conv, machine)
    found = dict.fromkeys([first, *_space(conv, machine, first)])
    return [choice for choice in found if legal(choice, conv, machine)]


def legal(choice: ColumnwiseChoice, conv: Convolution, machine: Machine) -> bool:
    """Return whether a choice computes a convolution without spills."""
    if min(choice.channels, choice.vectors, choice.rows) < 1 or (conv.co // conv.groups) % choice.channels:
        return False
    if choice.rows > 1 and (len(conv.out) == 1 or conv.out[-2] % choice.rows):
        return False
    return choice.vectors <= _most_vectors(choice.channels, machine)


def _most_vectors(channels: int, machine: Machine) -> int:
    """Return the largest number of vectors per tile that leaves registers for inputs and a weight."""
    weights = 2 if machine.operand == "memory" else channels
    most = (machine.registers - weights) // (channels + 1)
    if machine.tiles.sums is not None:
        most = min(most, (machine.tiles.sums - 2) // channels)
    return max(1, most)


def _channels(conv: Convolution) -> list[int]:
    each = conv.co // conv.groups
    return [count for count in range(1, min(each, _MOST_CHANNELS) + 1) if each % count == 0]


def _tile(conv: Convolution, machine: Machine, channels: int) -> ColumnwiseChoice:
    """Return a tile with `channels` channels that divides the row into about equal parts that fit."""
    row = -(-conv.out[-1] // machine.lanes)
    most = min(_MOST_VECTORS, _most_vectors(channels, machine))
    return ColumnwiseChoice(channels, -(-row // -(-row // most)))


def _rows(conv: Convolution, choice: ColumnwiseChoice, machine: Machine) -> int:
    """Return the rows of a piece: as many as share inputs in the cache, but a piece for every thread."""
    if len(conv.out) == 1:
        return 1
    above = conv.batch * prod(conv.out[:-2])
    fitting = [
        rows
        for rows in range(1, min(conv.out[-2], _MOST_ROWS) + 1)
        if conv.out[-2] % rows == 0
        and above * (conv.out[-2] // rows) >= PIECES * machine.threads
        and bytes_of_window(conv, replace(choice, rows=rows), machine) <= machine.cache // 2
    ]
    return max(fitting, default=1)


def _space(conv: Convolution, machine: Machine, first: ColumnwiseChoice) -> Iterator[ColumnwiseChoice]:
    for channels in reversed(_channels(conv)):
        tile = _tile(conv, machine, channels)
        for vectors in (tile.vectors, _most_vectors(channels, machine), tile.vectors // 2):
            other = replace(tile, vectors=max(1, vectors))
            yield replace(other, rows=_rows(conv, other, machine))
    for rows in (1, 2, 4, 8, 16):
        yield replace(first, rows=rows)

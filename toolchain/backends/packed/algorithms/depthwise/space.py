"""The choices of `depthwise`; `direct.space` says how the tiles were measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from toolchain.backends.packed.algorithms.cost import padded
from toolchain.backends.packed.algorithms.depthwise.choice import DepthwiseChoice
from toolchain.backends.packed.algorithms.items import column_choices, columns_of, fits, group_choices
from toolchain.backends.packed.algorithms.launch import alone
from toolchain.backends.packed.algorithms.pieces import MOST_ROWS, rows_of_piece
from toolchain.backends.packed.gpus import GpuRow
from toolchain.backends.packed.loops.cut import shares
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import ITEMS
from toolchain.backends.packed.recognise.convolution import Convolution

_WIDEST = 14  # largest number of columns per tile
_WIDEST_ON_GPUS = 7  # the same on GPUs with an estimate, whose items would spill wider ones


def default(conv: Convolution, machine: Machine) -> DepthwiseChoice:
    """Return the default tile; on x86, tiles of 4 to 14 columns measured alike."""
    pieces = conv.batch * -(-conv.co // machine.lanes)
    plain, other = machine.tiles.depthwise
    limit = other if conv.out[-1] <= machine.tiles.short or conv.stride[-1] > 1 else plain
    if machine.gpu is not None:
        return _on_gpu(conv, machine, machine.gpu)
    if machine.pieces.fine:
        return DepthwiseChoice(columns=columns_of(conv.out[-1], limit))
    rows = rows_of_piece(conv, machine, pieces, MOST_ROWS)
    return DepthwiseChoice(columns=min(limit, conv.out[-1]), rows=rows)


def _on_gpu(conv: Convolution, machine: Machine, gpu: GpuRow) -> DepthwiseChoice:
    """Return the tile with the lowest estimated time: a row's rest would take a launch of its own."""
    tiles = [DepthwiseChoice(columns=columns) for columns in range(1, _WIDEST_ON_GPUS + 1)]
    return min(tiles, key=lambda choice: seconds_on_gpu(choice, conv, machine, gpu))


def seconds_on_gpu(choice: DepthwiseChoice, conv: Convolution, machine: Machine, gpu: GpuRow) -> float:
    """Return the estimated time of the launches of a choice."""
    lines, taps = conv.batch * padded(conv.co, machine.lanes) // machine.lanes, prod(conv.kernel)
    lines *= prod(conv.out[:-1])
    group, total = prod(choice.group) if choice.group else ITEMS, 0.0
    for _start, count, columns in shares(conv.out[-1], choice.columns):
        reach = (columns - 1) * conv.stride[-1] + (conv.kernel[-1] - 1) * conv.dilation[-1] + 1
        inputs = prod(conv.kernel[:-1]) * min(reach, columns * conv.kernel[-1])
        numbers = (inputs + taps) * machine.lanes
        total += alone(lines * count, group, taps * columns * machine.lanes, numbers, gpu)
    return total


def candidates(conv: Convolution, machine: Machine) -> list[DepthwiseChoice]:
    """Return the choices that a tuner may measure, the default first."""
    first = default(conv, machine)
    space = _items_space(conv, machine, first) if machine.pieces.fine else _space(conv, first)
    found = dict.fromkeys([first, *space])
    return [choice for choice in found if legal(choice, conv, machine)]


def legal(choice: DepthwiseChoice, conv: Convolution, machine: Machine) -> bool:
    """Return whether a choice computes a convolution without spills."""
    if machine.pieces.fine and (choice.rows > 1 or not fits(choice.group, machine)):
        return False
    if choice.rows > 1 and (len(conv.out) == 1 or conv.out[-2] % choice.rows):
        return False
    return choice.rows >= 1 and 1 <= choice.columns <= min(_WIDEST, machine.registers - 4)


def _items_space(conv: Convolution, machine: Machine, first: DepthwiseChoice) -> Iterator[DepthwiseChoice]:
    for columns in column_choices(conv.out[-1], 1, machine):
        yield replace(first, columns=columns)
    for group in group_choices(machine):
        yield replace(first, group=group)


def _space(conv: Convolution, first: DepthwiseChoice) -> Iterator[DepthwiseChoice]:
    for columns in (4, 5, 6, 7, 8, 10, 12, 14):
        yield replace(first, columns=min(columns, conv.out[-1]))
    for rows in (1, 2, 4, 7, 14, 28):
        yield replace(first, rows=rows)

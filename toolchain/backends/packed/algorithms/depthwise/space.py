"""Tiles of depthwise convolutions; `direct.space` says how they were measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from toolchain.backends.packed.algorithms.depthwise.choice import DepthwiseChoice
from toolchain.backends.packed.algorithms.pieces import MOST_ROWS, rows_of_piece
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution

_WIDEST = 14  # columns


def default(conv: Convolution, machine: Machine) -> DepthwiseChoice:
    """Return how a depthwise convolution is computed; on x86 4 to 14 columns measured alike."""
    pieces = conv.batch * -(-conv.co // machine.lanes)
    plain, other = machine.tiles.depthwise
    limit = other if conv.out[-1] <= machine.tiles.short or conv.stride[-1] > 1 else plain
    rows = rows_of_piece(conv, machine, pieces, MOST_ROWS)
    return DepthwiseChoice(columns=min(limit, conv.out[-1]), rows=rows)


def candidates(conv: Convolution, machine: Machine) -> list[DepthwiseChoice]:
    """Return the choices that a tuner may measure, the default first."""
    first = default(conv, machine)
    found = dict.fromkeys([first, *_space(conv, first)])
    return [choice for choice in found if legal(choice, conv, machine)]


def legal(choice: DepthwiseChoice, conv: Convolution, machine: Machine) -> bool:
    """Whether a choice computes a convolution, without spills."""
    if choice.rows > 1 and (len(conv.out) == 1 or conv.out[-2] % choice.rows):
        return False
    return choice.rows >= 1 and 1 <= choice.columns <= min(_WIDEST, machine.registers - 4)


def _space(conv: Convolution, first: DepthwiseChoice) -> Iterator[DepthwiseChoice]:
    for columns in (4, 5, 6, 7, 8, 10, 12, 14):
        yield replace(first, columns=min(columns, conv.out[-1]))
    for rows in (1, 2, 4, 7, 14, 28):
        yield replace(first, rows=rows)

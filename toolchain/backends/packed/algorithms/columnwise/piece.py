"""What a parallel piece has of a convolution of few output channels: columns, and a window of the input."""

from __future__ import annotations

from math import prod

from toolchain.backends.packed.algorithms.columnwise.choice import ColumnwiseChoice
from toolchain.backends.packed.algorithms.columnwise.weight import reach
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution

PIECES = 4
"""Per thread, so that a busy core holds up no more than a quarter of its share."""


def needs_window(conv: Convolution) -> bool:
    """Whether the input cannot be read where it is: it has zeros around, or a stride."""
    return any(conv.pads) or conv.stride[-1] > 1


def columns_of_piece(conv: Convolution, choice: ColumnwiseChoice, machine: Machine) -> int:
    """Return the columns of a piece: whole rows, unless that leaves threads without work.

    Parts of rows are full tiles: a whole number of them.
    """
    columns = conv.out[-1]
    unit = choice.vectors * machine.lanes
    rows = choice.rows if len(conv.out) > 1 else 1
    pieces = conv.batch * prod(conv.out[:-1]) // rows
    parts = min(-(-PIECES * machine.threads // pieces), columns // unit)
    if parts <= 1:
        return columns
    return -(-columns // (parts * unit)) * unit


def window_shape(
    conv: Convolution, choice: ColumnwiseChoice, machine: Machine, columns: int
) -> tuple[int, ...]:
    """Return (ci, planes, rows of the input, phases, places) of what so many columns of a piece read."""
    above = [(taps - 1) * step + 1 for taps, step in zip(conv.kernel, conv.dilation, strict=True)][:-1]
    if above:
        above[-1] += (choice.rows - 1) * conv.stride[-2]
    # Zeros behind the image are written in full vectors, beyond the last place.
    return (conv.ci, *above, conv.stride[-1], columns + reach(conv) + machine.lanes)


def bytes_of_window(conv: Convolution, choice: ColumnwiseChoice, machine: Machine) -> int:
    """Return the bytes of a piece's window."""
    columns = columns_of_piece(conv, choice, machine)
    return machine.size(conv.dtype) * prod(window_shape(conv, choice, machine, columns))

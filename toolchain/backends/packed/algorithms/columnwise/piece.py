"""The size of a parallel piece of a columnwise convolution: its columns, and its window of the input."""

from __future__ import annotations

from math import prod

from toolchain.backends.packed.algorithms.columnwise.choice import ColumnwiseChoice
from toolchain.backends.packed.algorithms.columnwise.weight import reach
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution

PIECES = 4
"""Pieces per thread, so that a busy core delays at most a quarter of its share."""


def needs_window(conv: Convolution) -> bool:
    """Return whether the input must be copied first: because of padding, or of a stride."""
    return any(conv.pads) or conv.stride[-1] > 1


def columns_of_piece(conv: Convolution, choice: ColumnwiseChoice, machine: Machine) -> int:
    """Return the columns of a piece: a whole row, or parts of it if threads would have no work otherwise.

    A part is a whole number of full tiles.
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
    """Return the shape of a piece's window (ci, planes, input rows, phases, places) for `columns` columns."""
    above = [(taps - 1) * step + 1 for taps, step in zip(conv.kernel, conv.dilation, strict=True)][:-1]
    if above:
        above[-1] += (choice.rows - 1) * conv.stride[-2]
    # Zeros after the image are stored as full vectors, which may go beyond the last place.
    return (conv.ci, *above, conv.stride[-1], columns + reach(conv) + machine.lanes)


def bytes_of_window(conv: Convolution, choice: ColumnwiseChoice, machine: Machine) -> int:
    """Return the size of a piece's window in bytes."""
    columns = columns_of_piece(conv, choice, machine)
    return machine.size(conv.dtype) * prod(window_shape(conv, choice, machine, columns))

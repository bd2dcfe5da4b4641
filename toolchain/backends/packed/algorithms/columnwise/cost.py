"""The cost model of the algorithm `columnwise`."""

from __future__ import annotations

from math import prod

from toolchain.backends.packed.algorithms.columnwise.choice import ColumnwiseChoice
from toolchain.backends.packed.algorithms.columnwise.grid import grid_of
from toolchain.backends.packed.algorithms.columnwise.piece import (
    columns_of_piece,
    needs_window,
    window_shape,
)
from toolchain.backends.packed.algorithms.cost import Cost, padded
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.transposed import Transposed

_LINE = 64  # bytes of a cache line


def loads(choice: ColumnwiseChoice, machine: Machine, dtype: str) -> float:
    """Return the loads per vector of products; a load across two cache lines counts twice."""
    across = 1 + max(0.0, machine.vector / _LINE - machine.size(dtype) / _LINE)
    weights = choice.channels if machine.operand == "memory" else choice.channels / machine.lanes
    return (choice.vectors * across + weights) / (choice.vectors * choice.channels)


def cost(choice: ColumnwiseChoice, contraction: Convolution | Transposed, machine: Machine) -> Cost:
    """Return the estimated time of products and input copies, and the bytes of the weight."""
    conv, taps = grid_of(contraction), prod(contraction.kernel)
    rate, inner = machine.rates, conv.ci // conv.groups
    rows = conv.batch * prod(conv.out[:-1])
    products = rows * padded(conv.out[-1], machine.lanes) * taps * inner * conv.co
    seconds = 2 * products / machine.flops(conv.dtype) * max(1.0, loads(choice, machine, conv.dtype))
    if needs_window(conv):
        columns = columns_of_piece(conv, choice, machine)
        pieces = rows // (choice.rows if len(conv.out) > 1 else 1) * -(-conv.out[-1] // columns)
        seconds += pieces * prod(window_shape(conv, choice, machine, columns)) / rate.values
    if conv.ci >= machine.lanes:  # the input is packed, most likely
        seconds += conv.batch * conv.ci * prod(conv.size) / rate.values
    return Cost(seconds / machine.threads, taps * inner * conv.co * machine.size(conv.dtype))

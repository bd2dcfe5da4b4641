"""Depthwise convolution by dot products: one instruction multiplies neighbouring columns of every channel.

The columns of a block of channels lie one behind the other. One load has as many of them as a dot product
adds up, and one shuffle puts the columns of each channel side by side: a row of a 3x3 kernel is a load, a
shuffle and a dot product. Columns beyond the kernel are multiplied by zeros.
"""

from __future__ import annotations

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.arrays import Array
from toolchain.backends.packed.dot_products import DotProduct
from toolchain.backends.packed.loops.emitter import Emitter
from toolchain.backends.packed.loops.endings import store_all
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr


def takes_neighbours(conv: Convolution, machine: Machine) -> bool:
    """Return whether the machine multiplies these numbers by dot products, and the taps are neighbours."""
    return issubclass(machine.products_of(conv.dtype).code, DotProduct) and conv.dilation[-1] == 1


def halo(conv: Convolution, depth: int) -> tuple[int, ...]:
    """Return the padding around the image, with the columns behind it that the last load reads too."""
    *pads, last = conv.pads
    reads = (conv.out[-1] - 1) * conv.stride[-1] + steps(conv, depth) * depth
    return (*pads, max(last, reads - conv.size[-1] - conv.pads[len(conv.out) - 1]))


def steps(conv: Convolution, depth: int) -> int:
    """Return the number of instructions for a row of the kernel."""
    return -(-conv.kernel[-1] // depth)


def weight_shape(conv: Convolution, lanes: int, depth: int) -> tuple[int, ...]:
    """Return (c / V, *kernel without its columns, columns / D, V D)."""
    return (-(-conv.co // lanes), *conv.kernel[:-1], steps(conv, depth), lanes * depth)


def pack_weight(weight: Array, conv: Convolution, lanes: int, depth: int) -> Array:
    """Return a weight (c, 1, *kernel) with the columns of a channel side by side, and zeros behind them."""
    shape = weight_shape(conv, lanes, depth)
    blocks, *rows, many, _row = shape
    full = conv.reached(weight)[:, 0]
    around = [(0, -conv.co % lanes), *((0, 0) for _ in rows), (0, many * depth - conv.kernel[-1])]
    split = np.pad(full, around).reshape(blocks, lanes, *rows, many, depth)
    return np.ascontiguousarray(np.moveaxis(split, 1, -2)).reshape(shape)


def tile(emitter: Emitter, n: Expr, block: Expr, row: list[Expr], first: Expr, columns: int) -> None:
    """Emit a tile: `columns` outputs of all channels of a block."""
    conv, nest, lanes = emitter.conv, emitter.nest, emitter.lanes
    instruction = nest.machine.instruction(emitter.dtype)
    if not isinstance(instruction, DotProduct) or not isinstance(conv, Convolution):
        raise TypeError(f"{emitter.dtype}: a convolution by dot products is needed")
    depth, products = instruction.products.depth, instruction.products
    total = nest.local((columns * lanes,), products.sums)
    with nest.unroll(columns) as column, nest.vector(lanes) as lane:
        ir.buffer_store(total, tirx.const(0, products.sums), [column * lanes + lane])
    order = [column * lanes + lane for lane in range(lanes) for column in range(depth)]
    whole = tirx.Ramp(0, 1, lanes * depth)
    with nest.grid(conv.kernel[:-1]) as taps, nest.unroll(steps(conv, depth)) as step:
        at = [
            place * stride + tap * dilation + origin
            for place, stride, tap, dilation, origin in zip(
                row, conv.stride, taps, conv.dilation, emitter.origin, strict=False
            )
        ]
        weights = emitter.weight[(block, *taps, step, whole)]
        with nest.unroll(columns) as column:
            begin = (first + column) * conv.stride[-1] + step * depth + emitter.origin[-1]
            inputs = tirx.Shuffle([tirx.BufferLoad(emitter.x, [n, block, *at, begin, whole])], order)
            instruction.accumulate(total, column * lanes, inputs, weights)

    def index(_block: Expr, column: Expr, lane: Expr) -> list[Expr]:
        return [n, block * lanes + lane, *row, emitter.analyzer.simplify(first + column)]

    store_all(emitter, [total], columns, index)

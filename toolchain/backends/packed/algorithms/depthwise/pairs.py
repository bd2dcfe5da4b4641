"""Depthwise convolution of bytes by products in 16 bits, of several columns and all channels of a block.

Four columns of four channels are sixteen bytes. They are multiplied by the four weights of a tap, which are
broadcast to all columns; the products of two neighbouring taps are added in 16 bits, and then to the sums in
int32.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.dot_products import WORD, neighbours_of
from toolchain.backends.packed.loops.emitter import Emitter
from toolchain.backends.packed.loops.nest import store_all, tiles
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pairs import TOGETHER, Pairs, in_16_bits
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr

_BYTES = 4  # bytes of a word, and channels of a block
_COLUMNS = 4  # columns of a vector of 16 bytes


def takes_pairs(conv: Convolution, machine: Machine) -> bool:
    """Return whether the machine multiplies these numbers in pairs."""
    return issubclass(machine.products_of(conv.dtype).code, Pairs) and machine.lanes == _BYTES


def tile(emitter: Emitter, n: Expr, block: Expr, row: list[Expr], first: Expr, columns: int) -> None:
    """Emit a tile: `columns` outputs of all channels of a block."""
    conv, nest, lanes = emitter.conv, emitter.nest, emitter.lanes
    total = nest.local((columns * lanes,), "int32")
    with nest.unroll(columns) as column, nest.vector(lanes) as lane:
        ir.buffer_store(total, tirx.const(0, "int32"), [column * lanes + lane])
    parts = [
        (start + each * size, size) for start, many, size in tiles(columns, _COLUMNS) for each in range(many)
    ]
    stride, dilation, wide = conv.stride[-1], conv.dilation[-1], conv.kernel[-1]

    with nest.grid(conv.kernel[:-1]) as taps:
        at = [
            place * step + tap * apart + origin
            for place, step, tap, apart, origin in zip(
                row, conv.stride, taps, conv.dilation, emitter.origin, strict=False
            )
        ]
        for begin in range(0, wide, TOGETHER):
            across = range(begin, min(begin + TOGETHER, wide))
            for start, size in parts:
                count = size * lanes
                factors = []
                for tap in across:
                    here = (first + start) * stride + tap * dilation + emitter.origin[-1]
                    x = _inputs(emitter, [n, block, *at], here, stride, size)
                    w = _broadcast(emitter.weight[(block, *taps, tap, 0)], size)
                    factors.append((x, w))
                place = tirx.Ramp(start * lanes, 1, count)
                summed = tirx.Cast(f"int32x{count}", in_16_bits(factors, count))
                sums = tirx.BufferLoad(total, [place]) + summed
                ir.buffer_store(total, sums, [place])

    def index(_block: Expr, column: Expr, lane: Expr) -> list[Expr]:
        return [n, block * lanes + lane, *row, emitter.analyzer.simplify(first + column)]

    store_all(emitter, [total], columns, index, loop=False)


def _inputs(emitter: Emitter, place: list[Expr], column: Expr, stride: int, size: int) -> Expr:
    """Return the inputs of `size` columns, from `column` on."""
    if stride == 1:
        return tirx.BufferLoad(emitter.x, [*place, column, tirx.Ramp(0, 1, size * _BYTES)])
    words = [
        tirx.reinterpret(WORD, neighbours_of(emitter.x[(*place, column + each * stride, 0)], _BYTES))
        for each in range(size)
    ]
    whole = words[0] if size == 1 else tirx.Shuffle(words, list(range(size)))
    return tirx.reinterpret(f"int8x{size * _BYTES}", whole)


def _broadcast(weight: Expr, size: int) -> Expr:
    """Return the four weights of a tap, the first of which `weight` loads, for each of `size` columns."""
    word = tirx.reinterpret(WORD, neighbours_of(weight, _BYTES))
    return tirx.reinterpret(f"int8x{size * _BYTES}", word if size == 1 else tirx.Broadcast(word, size))

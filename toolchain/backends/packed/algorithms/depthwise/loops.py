"""Depthwise convolution on packed values: every lane is a channel of its own."""

from __future__ import annotations

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.depthwise import neighbours
from toolchain.backends.packed.algorithms.depthwise.choice import DepthwiseChoice
from toolchain.backends.packed.algorithms.depthwise.weight import weight_shape
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.cut import shares
from toolchain.backends.packed.loops.emitter import Emitter
from toolchain.backends.packed.loops.endings import store_all
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr, Read


def depthwise(
    read: Read, conv: Convolution, choice: DepthwiseChoice, layouts: Layouts, machine: Machine
) -> tirx.PrimFunc:
    """Return the packed function of a depthwise convolution, epilogue included."""

    def body(nest: Nest) -> None:
        depth, emit = machine.products_of(conv.dtype).depth, _tile
        shape, halo = weight_shape(conv, machine.lanes), conv.pads
        if depth > 1:
            shape, halo = neighbours.weight_shape(conv, machine.lanes, depth), neighbours.halo(conv, depth)
            emit = neighbours.tile
        emitter = Emitter(nest, read, conv, layouts, shape, halo)
        analyzer = emitter.analyzer
        outer = list(conv.out[:-1])
        rows = choice.rows if outer and outer[-1] % choice.rows == 0 else 1
        if outer:
            outer[-1] //= rows
        blocks = int(emitter.weight.shape[0])
        if machine.pieces.fine:
            for start, count, size in shares(conv.out[-1], choice.columns):
                space = [conv.batch, blocks, *conv.out[:-1], count]
                with nest.pieces(space, group=choice.group) as (n, block, *row, tile):
                    first = analyzer.simplify(tile * size + start)
                    emit(emitter, n, block, row, first, size)
                    emitter.zero_halo_of_tile(n, block, row, first, size)
            return
        space = [conv.batch, *outer, blocks]
        with (
            nest.pieces(space) as (n, *where, block),
            nest.grid([rows] if outer else []) as step,
        ):
            row = where
            if step:
                row = [*where[:-1], analyzer.simplify(where[-1] * rows + step[0])]
            for start, count, size in shares(conv.out[-1], choice.columns):
                with nest.grid([count]) as (tile,):
                    first = analyzer.simplify(tile * size + start)
                    emit(emitter, n, block, row, first, size)
            if any(emitter.layout(read.output).halo):
                emitter.zero_halo(n, block, row)

    return build(machine, body)


def _tile(emitter: Emitter, n: Expr, block: Expr, row: list[Expr], first: Expr, columns: int) -> None:
    conv, nest, analyzer, lanes = emitter.conv, emitter.nest, emitter.analyzer, emitter.lanes
    total = nest.local((columns * lanes,), emitter.dtype)
    with nest.unroll(columns) as column, nest.vector(lanes) as lane:
        ir.buffer_store(total, emitter.zero, [column * lanes + lane])
    with (
        nest.grid(conv.kernel[:-1]) as taps,
        nest.unroll(conv.kernel[-1]) as last,
        nest.unroll(columns) as column,
        nest.vector(lanes) as lane,
    ):
        at = [
            place * stride + tap * dilation + origin
            for place, stride, tap, dilation, origin in zip(
                [*row, first + column],
                conv.stride,
                [*taps, last],
                conv.dilation,
                emitter.origin,
                strict=True,
            )
        ]
        x = tirx.BufferLoad(emitter.x, [n, block, *at, lane])
        w = emitter.weight[(block, *taps, last, lane)]
        ir.buffer_store(total, total[column * lanes + lane] + x * w, [column * lanes + lane])

    def index(_block: Expr, column: Expr, lane: Expr) -> list[Expr]:
        return [n, block * lanes + lane, *row, analyzer.simplify(first + column)]

    store_all(emitter, [total], columns, index)

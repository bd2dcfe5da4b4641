"""Direct convolution on packed values.

A tile of `blocks` output blocks x `columns` output columns is kept in vector registers while it sums
up over input channels and the kernel. Weights lie in the order in which they are read.
"""

from __future__ import annotations

from math import prod

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.building.cpu.choice import Choice
from toolchain.building.cpu.convolution import Convolution
from toolchain.building.cpu.core import Core
from toolchain.building.cpu.emit import ZERO, Emitter, Layouts, build, grid, places, tiles
from toolchain.building.cpu.expressions import bind
from toolchain.building.cpu.layout import Array
from toolchain.building.cpu.read import Expr, Read


def weight_shape(conv: Convolution, choice: Choice, lanes: int, input_lanes: int) -> tuple[int, ...]:
    """Return (co / (N V), ci / VI, *kernel, VI, N V): N blocks of V outputs lie side by side."""
    wide = choice.blocks * lanes
    return (-(-conv.co // wide), -(-conv.ci // input_lanes), *conv.kernel, input_lanes, wide)


def pack_weight(weight: Array, conv: Convolution, choice: Choice, lanes: int, input_lanes: int) -> Array:
    """Return a weight (co, ci, *kernel) as `direct` reads it."""
    outer, inner, *kernel, _input_lanes, wide = weight_shape(conv, choice, lanes, input_lanes)
    around = [(0, -conv.co % wide), (0, -conv.ci % input_lanes), *((0, 0) for _ in kernel)]
    blocked = np.pad(weight, around).reshape(outer, wide, inner, input_lanes, *kernel)
    taps = range(4, 4 + len(kernel))
    return np.ascontiguousarray(blocked.transpose(0, 2, *taps, 3, 1))


def direct(read: Read, conv: Convolution, choice: Choice, layouts: Layouts, core: Core) -> tirx.PrimFunc:
    """Return the packed function of a convolution without groups, epilogue included."""

    def body() -> None:
        source = layouts[read.parameter(conv.x)]
        input_lanes = core.lanes if source is None else source.lanes
        shape = weight_shape(conv, choice, core.lanes, input_lanes)
        _loops(Emitter(read, conv, layouts, shape, core.lanes), choice, core, input_lanes)

    return build(body)


def _loops(emitter: Emitter, choice: Choice, core: Core, input_lanes: int) -> None:
    conv, analyzer, blocks = emitter.conv, emitter.analyzer, choice.blocks
    groups = emitter.weight.shape[0]
    outer = [1] if choice.flat else list(conv.out[:-1])
    pieces = list(outer)
    rows = choice.rows if pieces and pieces[-1] % choice.rows == 0 else 1
    if pieces:
        pieces[-1] //= rows
    groups = int(groups)
    space = [conv.batch, *pieces, groups] if choice.order == "rows" else [conv.batch, groups, *pieces]
    with ir.parallel(0, prod(space)) as piece:
        n, *where = places(bind(analyzer, piece, prod(space)), space, analyzer)
        group = where.pop() if choice.order == "rows" else where.pop(0)
        with grid([rows] if pieces else [], analyzer) as step:
            row = where
            if step:
                row = [*where[:-1], analyzer.simplify(where[-1] * rows + step[0])]
            columns = prod(conv.out) if choice.flat else conv.out[-1]
            for start, count, size in tiles(columns, choice.columns):
                with grid([count], analyzer) as (tile,):
                    first = analyzer.simplify(tile * size + start)
                    _tile(emitter, choice, core, input_lanes, n, group, row, first, size)
            if any(emitter.layout(emitter.read.output).halo):
                for block in range(blocks):
                    with grid(conv.out[:-1] if choice.flat else [], analyzer) as rows_of_flat:
                        emitter.zero_halo(n, group * blocks + block, rows_of_flat or row)


def _tile(
    emitter: Emitter,
    choice: Choice,
    core: Core,
    input_lanes: int,
    n: Expr,
    group: Expr,
    row: list[Expr],
    first: Expr,
    columns: int,
) -> None:
    conv, analyzer, lanes = emitter.conv, emitter.analyzer, core.lanes
    sums = [ir.alloc_buffer((columns * lanes,), "float32") for _ in range(choice.blocks)]
    for total in sums:
        with ir.unroll(0, columns) as column, ir.vectorized(0, lanes) as lane:
            ir.buffer_store(total, ZERO, [column * lanes + lane])

    def output(column: Expr) -> list[Expr]:
        """Spatial place of a column of the tile."""
        if choice.flat:
            return places(analyzer.simplify(first + column), conv.out, analyzer)
        return [*row, analyzer.simplify(first + column)]

    def source(taps: list[Expr], column: Expr) -> list[Expr]:
        """Where a tap of the kernel reads the input for a column."""
        return [
            place * stride + tap * dilation + origin
            for place, stride, tap, dilation, origin in zip(
                output(column), conv.stride, taps, conv.dilation, emitter.origin, strict=True
            )
        ]

    by_lane = core.form == "lanes"
    inputs = ir.alloc_buffer((columns * input_lanes,), "float32") if by_lane else None
    with grid([int(emitter.weight.shape[1]), *conv.kernel], analyzer) as (block, *taps):
        if inputs is not None:
            with ir.unroll(0, columns) as column, ir.vectorized(0, input_lanes) as lane:
                bind(analyzer, column, columns)
                at = [n, block, *source(taps, column), lane]
                ir.buffer_store(inputs, tirx.BufferLoad(emitter.x, at), [column * input_lanes + lane])
        with (
            (ir.unroll if by_lane else ir.serial)(0, input_lanes) as channel,
            ir.unroll(0, columns) as column,
        ):
            bind(analyzer, column, columns)
            for place, total in enumerate(sums):
                with ir.vectorized(0, lanes) as lane:
                    if inputs is not None:
                        x = inputs[column * input_lanes + channel]
                    else:
                        x = tirx.BufferLoad(emitter.x, [n, block, *source(taps, column), channel])
                    w = emitter.weight[(group, block, *taps, channel, place * lanes + lane)]
                    ir.buffer_store(total, total[column * lanes + lane] + x * w, [column * lanes + lane])
    for place, total in enumerate(sums):
        with ir.unroll(0, columns) as column:
            bind(analyzer, column, columns)
            with ir.vectorized(0, lanes) as lane:
                bind(analyzer, lane, lanes)
                channel = (group * choice.blocks + place) * lanes + lane
                emitter.store(total[column * lanes + lane], [n, channel, *output(column)])

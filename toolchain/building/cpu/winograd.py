"""Winograd's F(m x m, 3 x 3) on packed values.

m x m outputs of a 3 x 3 convolution take (m + 2)^2 multiplications instead of 9 m^2 (Lavin and Gray,
"Fast Algorithms for Convolutional Neural Networks", 2015). Input transform, products and output transform
are one function: by rows of tiles where images are large, else over the whole image.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.building.cpu.choice import Choice
from toolchain.building.cpu.convolution import Convolution
from toolchain.building.cpu.core import Core
from toolchain.building.cpu.emit import ZERO, Emitter, Layouts, build, grid, places, tiles, when
from toolchain.building.cpu.expressions import bind
from toolchain.building.cpu.layout import Array
from toolchain.building.cpu.read import Expr, Read

# The filter transforms G of the paper's equations for the interpolation points 0, 1, -1 (m = 2) and
# 0, 1, -1, 2, -2 (m = 4).
_FILTER = {
    2: np.array([[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]]),
    4: np.array(
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ]
    ),
}
SIZES = tuple(_FILTER)


def applies(conv: Convolution) -> bool:
    """Whether a convolution is 3 x 3 with stride and dilation 1 and one group."""
    return conv.kernel == (3, 3) and conv.stride == conv.dilation == (1, 1) and conv.groups == 1


def halo(conv: Convolution, m: int) -> tuple[int, ...]:
    """Return the zeros around the input with which every tile lies inside it."""
    after = (
        max(0, -(-out // m) * m + 2 - size - before)
        for out, size, before in zip(conv.out, conv.size, conv.pads, strict=False)
    )
    return (*conv.pads[:2], *after)


def weight_shape(conv: Convolution, choice: Choice, lanes: int) -> tuple[int, ...]:
    """Return (co / (N V), (m + 2)^2, ci in full blocks, N V)."""
    wide = choice.blocks * lanes
    return (-(-conv.co // wide), (choice.tile + 2) ** 2, -(-conv.ci // lanes) * lanes, wide)


def pack_weight(weight: Array, conv: Convolution, choice: Choice, lanes: int) -> Array:
    """Return a weight (co, ci, 3, 3), transformed, as `winograd` reads it."""
    outer, points, inner, wide = weight_shape(conv, choice, lanes)
    padded = np.pad(weight, [(0, -conv.co % wide), (0, inner - conv.ci), (0, 0), (0, 0)])
    transform = _FILTER[choice.tile]
    # In double precision: the transform's rounding would otherwise add to every product's.
    moved = np.matmul(np.matmul(transform, padded.astype(np.float64)), transform.T)
    blocked = moved.reshape(outer, wide, inner, points).transpose(0, 3, 2, 1)
    return np.ascontiguousarray(blocked, dtype=np.float32)


def _input_row(d: Sequence[Expr], m: int) -> list[Expr]:
    """B^T d, common terms taken out."""
    if m == 2:
        return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]
    two, four, five = (tirx.const(value, "float32") for value in (2.0, 4.0, 5.0))
    t, u = d[4] - d[2] * four, d[3] - d[1] * four
    v, w = d[4] - d[2], (d[3] - d[1]) * two
    return [
        d[0] * four + (d[4] - d[2] * five),
        t + u,
        t - u,
        v + w,
        v - w,
        d[1] * four + (d[5] - d[3] * five),
    ]


def _output_row(q: Sequence[Expr], m: int) -> list[Expr]:
    """A^T q, common terms taken out."""
    if m == 2:
        return [q[0] + q[1] + q[2], q[1] - q[2] - q[3]]
    two, four, eight = (tirx.const(value, "float32") for value in (2.0, 4.0, 8.0))
    plus, minus, plus2, minus2 = q[1] + q[2], q[1] - q[2], q[3] + q[4], q[3] - q[4]
    return [
        q[0] + plus + plus2,
        minus + minus2 * two,
        plus + plus2 * four,
        minus + minus2 * eight + q[5],
    ]


def winograd(read: Read, conv: Convolution, choice: Choice, layouts: Layouts, core: Core) -> tirx.PrimFunc:
    """Return the packed function of a convolution that `applies`, epilogue included."""

    def body() -> None:
        shape = weight_shape(conv, choice, core.lanes)
        _Winograd(Emitter(read, conv, layouts, shape, core.lanes), choice).emit()

    return build(body)


class _Winograd:
    def __init__(self, emitter: Emitter, choice: Choice) -> None:
        self.emitter, self.choice, self.m = emitter, choice, choice.tile
        self.conv, self.lanes, self.analyzer = emitter.conv, emitter.lanes, emitter.analyzer
        self.points = self.m + 2
        self.high, self.wide = (-(-out // self.m) for out in self.conv.out)
        self.groups, _points, padded, _wide = (int(extent) for extent in emitter.weight.shape)
        self.inner = padded // self.lanes

    def emit(self) -> None:
        if self.choice.order == "rows":
            self._by_rows()
        else:
            self._whole_image()

    def _by_rows(self) -> None:
        """One parallel piece is one row of tiles, all channels."""
        points, wide, lanes, blocks = self.points**2, self.wide, self.lanes, self.choice.blocks
        space = [self.conv.batch, self.high]
        with ir.parallel(0, self.conv.batch * self.high) as piece:
            n, y = places(bind(self.analyzer, piece, self.conv.batch * self.high), space, self.analyzer)
            moved = ir.alloc_buffer((points, self.inner, wide, lanes), "float32")
            sums = ir.alloc_buffer((points, blocks, wide, lanes), "float32")
            with grid([self.inner, wide], self.analyzer) as (block, x):
                self._transform_input(moved, n, block, y, x, x)
            with grid([self.groups], self.analyzer) as (group,):
                self._products(moved, sums, group, wide)
                for block in range(blocks):
                    with grid([wide], self.analyzer) as (x,):
                        self._transform_output(sums, n, group, block, y, x, x)
                self._halo(n, group, self.m, y * self.m)

    def _whole_image(self) -> None:
        """The images are transformed first; one parallel piece then is a group of output channels."""
        points, count, lanes, blocks = self.points**2, self.high * self.wide, self.lanes, self.choice.blocks
        batch = self.conv.batch
        moved = ir.alloc_buffer((points, self.inner, batch * count, lanes), "float32")
        space = [batch, self.inner, self.high]
        with ir.parallel(0, batch * self.inner * self.high) as piece:
            n, block, y = places(
                bind(self.analyzer, piece, batch * self.inner * self.high), space, self.analyzer
            )
            with grid([self.wide], self.analyzer) as (x,):
                tile = n * count + y * self.wide + x
                self._transform_input(moved, n, block, y, x, tile)
        with ir.parallel(0, self.groups) as group:
            bind(self.analyzer, group, self.groups)
            sums = ir.alloc_buffer((points, blocks, batch * count, lanes), "float32")
            self._products(moved, sums, group, batch * count)
            for block in range(blocks):
                with grid([batch, self.high, self.wide], self.analyzer) as (n, y, x):
                    tile = n * count + y * self.wide + x
                    self._transform_output(sums, n, group, block, y, x, tile)
            with grid([batch], self.analyzer) as (n,):
                self._halo(n, group, self.conv.out[0], tirx.const(0, "int32"))

    def _transform_input(
        self, moved: tirx.Buffer, n: Expr, block: Expr, y: Expr, x: Expr, tile: Expr
    ) -> None:
        points, lanes, m = self.points, self.lanes, self.m
        top, left = (origin for origin in self.emitter.origin)
        rows = [ir.alloc_buffer((points * lanes,), "float32") for _ in range(points)]
        with ir.unroll(0, points) as column:
            for place, row in enumerate(rows):
                with ir.vectorized(0, lanes) as lane:
                    source = [
                        self.emitter.x[(n, block, y * m + k + top, x * m + column + left, lane)]
                        for k in range(points)
                    ]
                    ir.buffer_store(row, _input_row(source, m)[place], [column * lanes + lane])
        for high, row in enumerate(rows):
            for wide in range(points):
                with ir.vectorized(0, lanes) as lane:
                    value = _input_row([row[k * lanes + lane] for k in range(points)], m)[wide]
                    ir.buffer_store(moved, value, [high * points + wide, block, tile, lane])

    def _products(self, moved: tirx.Buffer, sums: tirx.Buffer, group: Expr, count: int) -> None:
        lanes, blocks, analyzer = self.lanes, self.choice.blocks, self.analyzer
        with grid([self.points**2], analyzer) as (point,):
            for start, many, size in tiles(count, self.choice.columns):
                with grid([many], analyzer) as (tile,):
                    first = analyzer.simplify(tile * size + start)
                    totals = [ir.alloc_buffer((size * lanes,), "float32") for _ in range(blocks)]
                    for total in totals:
                        with ir.unroll(0, size) as column, ir.vectorized(0, lanes) as lane:
                            ir.buffer_store(total, ZERO, [column * lanes + lane])
                    with (
                        grid([self.inner, lanes], analyzer) as (block, channel),
                        ir.unroll(0, size) as column,
                    ):
                        for place, total in enumerate(totals):
                            with ir.vectorized(0, lanes) as lane:
                                value = (
                                    total[column * lanes + lane]
                                    + moved[(point, block, first + column, channel)]
                                    * self.emitter.weight[
                                        (group, point, block * lanes + channel, place * lanes + lane)
                                    ]
                                )
                                ir.buffer_store(total, value, [column * lanes + lane])
                    for place, total in enumerate(totals):
                        with ir.unroll(0, size) as column, ir.vectorized(0, lanes) as lane:
                            at = [point, place, first + column, lane]
                            ir.buffer_store(sums, total[column * lanes + lane], at)

    def _transform_output(
        self, sums: tirx.Buffer, n: Expr, group: Expr, block: int, y: Expr, x: Expr, tile: Expr
    ) -> None:
        points, lanes, m = self.points, self.lanes, self.m
        out_block = group * self.choice.blocks + block
        rows = [ir.alloc_buffer((points * lanes,), "float32") for _ in range(m)]
        with ir.unroll(0, points) as column:
            for line, row in enumerate(rows):
                with ir.vectorized(0, lanes) as lane:
                    source = [sums[(k * points + column, block, tile, lane)] for k in range(points)]
                    ir.buffer_store(row, _output_row(source, m)[line], [column * lanes + lane])
        for high, row in enumerate(rows):
            for wide in range(m):
                place = [y * m + high, x * m + wide]
                inside = [where < out for where, out in zip(place, self.conv.out, strict=True) if out % m]
                with when(tirx.all(*inside) if inside else None), ir.vectorized(0, lanes) as lane:
                    bind(self.analyzer, lane, lanes)
                    value = _output_row([row[k * lanes + lane] for k in range(points)], m)[wide]
                    self.emitter.store(value, [n, out_block * lanes + lane, *place])

    def _halo(self, n: Expr, group: Expr, rows: int, first: Expr) -> None:
        """Write the zeros around the output's rows from `first` on."""
        if not any(self.emitter.layout(self.emitter.read.output).halo):
            return
        for block in range(self.choice.blocks):
            with grid([rows], self.analyzer) as (step,):
                row = first + step
                inside = row < self.conv.out[0] if self.conv.out[0] % self.m else None
                with when(inside):
                    self.emitter.zero_halo(n, group * self.choice.blocks + block, [row])

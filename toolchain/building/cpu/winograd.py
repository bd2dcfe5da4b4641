"""Winograd's F(m x m, 3 x 3) on packed values.

m x m outputs of a 3 x 3 convolution take (m + 2)^2 multiplications instead of 9 m^2. Input transform,
products and output transform are one function: of some rows of tiles at a time, or of the whole batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.building.cpu.choice import Choice
from toolchain.building.cpu.convolution import Convolution
from toolchain.building.cpu.core import Core
from toolchain.building.cpu.emit import Emitter, Layouts, build, grid, pieces, tiles, when
from toolchain.building.cpu.expressions import bind
from toolchain.building.cpu.layout import Array
from toolchain.building.cpu.prefetch import LINE, prefetch, prefetch_share
from toolchain.building.cpu.read import Expr, Read
from toolchain.building.cpu.sums import Sums
from toolchain.building.cpu.transforms import TAPS, applied, matrices

_NEAR = 16384  # bytes of one point's weights up to which they are fetched into the first cache


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
    transform = np.array(matrices(choice.tile).filters, dtype=np.float64)
    # In double precision: the transform's rounding would otherwise add to every product's.
    moved = np.matmul(np.matmul(transform, padded.astype(np.float64)), transform.T)
    blocked = moved.reshape(outer, wide, inner, points).transpose(0, 3, 2, 1)
    return np.ascontiguousarray(blocked, dtype=np.float32)


def winograd(read: Read, conv: Convolution, choice: Choice, layouts: Layouts, core: Core) -> tirx.PrimFunc:
    """Return the packed function of a convolution that `applies`, epilogue included."""

    def body() -> None:
        shape = weight_shape(conv, choice, core.lanes)
        _Winograd(Emitter(read, conv, layouts, shape, core.lanes), choice, core).emit()

    return build(body)


@dataclass(frozen=True)
class _Turn:
    """The tiles whose sums are computed at once: for which group and point, which of `turns`, how many."""

    group: Expr
    point: Expr
    turn: Expr
    turns: int
    size: int


class _Winograd:
    """The function under construction.

    Its buffers are (points, tiles of some channel blocks, lanes) with the last two axes as one: `count` tiles
    of the first block, then those of the next.
    """

    def __init__(self, emitter: Emitter, choice: Choice, core: Core) -> None:
        self.emitter, self.choice, self.core, self.m = emitter, choice, core, choice.tile
        self.conv, self.lanes, self.analyzer = emitter.conv, emitter.lanes, emitter.analyzer
        self.matrices, self.points = matrices(self.m), self.m + TAPS - 1
        self.high, self.wide = (-(-out // self.m) for out in self.conv.out)
        self.groups, _points, padded, _wide = (int(extent) for extent in emitter.weight.shape)
        self.inner = padded // self.lanes

    def emit(self) -> None:
        if self.choice.order == "rows":
            self._by_rows()
        else:
            self._whole_batch()

    def _by_rows(self) -> None:
        """One parallel piece is some rows of tiles of one image, all channels."""
        (_start, many, rows), *rest = tiles(self.high, min(self.choice.rows, self.high))
        space = [self.conv.batch, many + len(rest)]
        with pieces(space, self.analyzer) as (n, band):
            moved = self._buffer(self._moved(rows * self.wide))
            sums = self._buffer(self.choice.blocks * rows * self.wide)
            for size, here in [
                (rows, band < many if rest else None),
                *((each[2], band >= many) for each in rest),
            ]:
                with when(here):
                    first, count = self.analyzer.simplify(band * rows), size * self.wide
                    with grid([self.inner, size, self.wide], self.analyzer) as (block, y, x):
                        self._move(moved, n, block, first + y, x, self._place(block, y * self.wide + x))
                    with grid([self.groups], self.analyzer) as (group,):
                        self._products(moved, sums, group, count)
                        for block in range(self.choice.blocks):
                            with grid([size, self.wide], self.analyzer) as (y, x):
                                tile = (block * size + y) * self.wide + x
                                self._store(sums, n, group, block, first + y, x, tile)
                            self._halo(n, group, block, size * self.m, first * self.m)

    def _whole_batch(self) -> None:
        """The images are transformed first; one parallel piece then is a group of output channels."""
        batch, count = self.conv.batch, self.conv.batch * self.high * self.wide
        moved = self._buffer(self._moved(count))
        with (
            pieces([batch, self.inner, self.high], self.analyzer) as (n, block, y),
            grid([self.wide], self.analyzer) as (x,),
        ):
            self._move(moved, n, block, y, x, self._place(block, (n * self.high + y) * self.wide + x))
        with pieces([self.groups], self.analyzer) as (group,):
            sums = self._buffer(self.choice.blocks * count)
            self._products(moved, sums, group, count)
            for block in range(self.choice.blocks):
                with grid([batch, self.high, self.wide], self.analyzer) as (n, y, x):
                    tile = block * count + (n * self.high + y) * self.wide + x
                    self._store(sums, n, group, block, y, x, tile)
                with grid([batch], self.analyzer) as (n,):
                    self._halo(n, group, block, self.conv.out[0], tirx.const(0, "int32"))

    def _moved(self, count: int) -> int:
        """Return how many vectors of a point `count` tiles have."""
        columns = self.choice.columns
        return -(-count // columns) * columns * self.inner

    def _place(self, block: Expr, tile: Expr) -> Expr:
        """Return where a block of a tile lies: the products read one after another."""
        columns = self.choice.columns
        tile = self.analyzer.simplify(tile)
        return self.analyzer.simplify(((tile // columns) * self.inner + block) * columns + tile % columns)

    def _buffer(self, vectors: int) -> tirx.Buffer:
        """Return a buffer of so many vectors per point.

        An odd number of cache lines lies between two points: what a transform reads or writes at once must
        not fall into the same set of the cache.
        """
        lines = -(-vectors * self.lanes // LINE)
        return ir.alloc_buffer((self.points**2, (lines | 1) * LINE), "float32")

    def _move(self, moved: tirx.Buffer, n: Expr, block: Expr, y: Expr, x: Expr, tile: Expr) -> None:
        """Transform one tile of the input."""
        points, lanes, m = self.points, self.lanes, self.m
        top, left = self.emitter.origin
        rows = [ir.alloc_buffer((points * lanes,), "float32") for _ in range(points)]
        with ir.unroll(0, points) as column, ir.vectorized(0, lanes) as lane:
            source = [
                self.emitter.x[(n, block, y * m + k + top, x * m + column + left, lane)]
                for k in range(points)
            ]
            for row, value in zip(rows, applied(self.matrices.inputs, source), strict=True):
                ir.buffer_store(row, value, [column * lanes + lane])
        for high, row in enumerate(rows):
            with ir.vectorized(0, lanes) as lane:
                source = [row[k * lanes + lane] for k in range(points)]
                for wide, value in enumerate(applied(self.matrices.inputs, source)):
                    ir.buffer_store(moved, value, [high * points + wide, tile * lanes + lane])

    def _products(self, moved: tirx.Buffer, sums: tirx.Buffer, group: Expr, count: int) -> None:
        """Multiply every point's matrix of inputs (tiles, ci) with its weights (ci, N V)."""
        cut = tiles(count, self.choice.columns)
        turns = sum(many for _start, many, _size in cut)
        with grid([self.points**2], self.analyzer) as (point,):
            for start, many, size in cut:
                with grid([many], self.analyzer) as (tile,):
                    turn = self.analyzer.simplify(tile + start // self.choice.columns)
                    self._tile(moved, sums, count, _Turn(group, point, turn, turns, size))

    def _tile(self, moved: tirx.Buffer, sums: tirx.Buffer, count: int, at: _Turn) -> None:
        """Multiply the tiles of a turn with the weights of one point and one group."""
        lanes, weight, columns = self.lanes, self.emitter.weight, self.choice.columns
        products = Sums(self.choice.blocks, at.size, lanes, "float32", self.inner * lanes)
        products.clear()
        by_lane = self.core.form == "lanes"
        inputs = ir.alloc_buffer((at.size * lanes,), "float32") if by_lane else None
        with grid([self.inner], self.analyzer) as (block,):
            first = (at.turn * self.inner + block) * columns
            if inputs is not None:
                if self.core.fetches:
                    self._fetch(at, block)
                with ir.unroll(0, at.size) as column, ir.vectorized(0, lanes) as lane:
                    value = moved[at.point, (first + column) * lanes + lane]
                    ir.buffer_store(inputs, value, [column * lanes + lane])
            with (ir.unroll if by_lane else ir.serial)(0, lanes) as channel:
                if inputs is None:
                    self._fetch(at, block * lanes + channel)
                row = (at.group, at.point, block * lanes + channel)
                with ir.unroll(0, at.size) as column:
                    if inputs is not None:
                        x = inputs[column * lanes + channel]
                    else:
                        x = moved[at.point, (first + column) * lanes + channel]
                    products.add(column, lambda place, lane: x * weight[(*row, place * lanes + lane)])
        for place, total in enumerate(products.totals):
            with ir.unroll(0, at.size) as column, ir.vectorized(0, lanes) as lane:
                index = (place * count + at.turn * columns + column) * lanes + lane
                ir.buffer_store(sums, total[column * lanes + lane], [at.point, index])

    def _fetch(self, at: _Turn, step: Expr) -> None:
        """Ask for this step's share of the weights of the next point."""
        inner, wide = self.inner * self.lanes, self.choice.blocks * self.lanes
        near, following = inner * wide * 4 <= _NEAR, at.point + 1
        if self.core.form == "lanes":  # of its own rows, some twice: another running address costs more
            lines = -(-self.lanes * wide // LINE)
            share = -(-lines // at.turns)
            for line in range(share):
                place = self.analyzer.simplify((at.turn * share + line) % lines * LINE)
                prefetch(self.emitter.weight, [at.group, following, step * self.lanes, place], near)
            return
        first, steps = [at.group, following, 0, 0], at.turns * inner
        step = at.turn * inner + step
        prefetch_share(self.emitter.weight, first, inner * wide, step, steps, self.analyzer, near)

    def _store(
        self, sums: tirx.Buffer, n: Expr, group: Expr, block: int, y: Expr, x: Expr, tile: Expr
    ) -> None:
        """Transform one tile of the output back and write it."""
        points, lanes, m = self.points, self.lanes, self.m
        out_block = group * self.choice.blocks + block
        rows = [ir.alloc_buffer((points * lanes,), "float32") for _ in range(m)]
        with ir.unroll(0, points) as column, ir.vectorized(0, lanes) as lane:
            source = [sums[k * points + column, tile * lanes + lane] for k in range(points)]
            for row, value in zip(rows, applied(self.matrices.outputs, source), strict=True):
                ir.buffer_store(row, value, [column * lanes + lane])
        for high, row in enumerate(rows):
            for wide in range(m):
                place = [y * m + high, x * m + wide]
                inside = [where < out for where, out in zip(place, self.conv.out, strict=True) if out % m]
                with when(tirx.all(*inside) if inside else None), ir.vectorized(0, lanes) as lane:
                    bind(self.analyzer, lane, lanes)
                    source = [row[k * lanes + lane] for k in range(points)]
                    value = applied(self.matrices.outputs, source)[wide]
                    self.emitter.store(value, [n, out_block * lanes + lane, *place])

    def _halo(self, n: Expr, group: Expr, block: int, rows: int, first: Expr) -> None:
        """Write the zeros around the output's rows from `first` on."""
        if not any(self.emitter.layout(self.emitter.read.output).halo):
            return
        with grid([rows], self.analyzer) as (step,):
            row = first + step
            with when(row < self.conv.out[0] if self.conv.out[0] % self.m else None):
                self.emitter.zero_halo(n, group * self.choice.blocks + block, [row])

"""Winograd's F(m x m, k x l) on packed values, or F(m, k) along one of two axes.

m x m outputs of a 3 x 3 convolution take (m + 2)^2 multiplications instead of 9 m^2; with a transform along
one axis alone 3 (m + 2) instead of 9 m, with smaller weights. Input transform, products and output transform
are one function, which handles some rows of tiles at a time, or the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod

from tvm import DataType, tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.winograd.transforms import (
    WinogradChoice,
    applied,
    matrices,
    points,
    shift,
    summed,
    weight_shape,
)
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.emitter import Emitter
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest, tiles
from toolchain.backends.packed.loops.prefetch import LINE, prefetch, prefetch_share
from toolchain.backends.packed.loops.tile import Tile
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr, Read

# Allocates a buffer of a shape and type, for one piece or for all pieces.
Allocate = Callable[[Sequence[int], str], tirx.Buffer]

_NEAR = 16384  # bytes of one point's weights up to which they are prefetched into L1


def winograd(
    read: Read, conv: Convolution, choice: WinogradChoice, layouts: Layouts, machine: Machine
) -> tirx.PrimFunc:
    """Return the packed function of a convolution for which `tiles_of` is not empty, epilogue included."""

    def body(nest: Nest) -> None:
        shape = weight_shape(conv, choice, machine.lanes, machine.products_of(conv.dtype).depth)
        _Winograd(Emitter(nest, read, conv, layouts, shape), choice).emit()

    return build(machine, body)


@dataclass(frozen=True)
class _Turn:
    """The tiles whose sums are computed at once: their group and point, number of `turns`, and size."""

    group: Expr
    point: Expr
    turn: Expr
    turns: int
    size: int


@dataclass(frozen=True)
class _Inputs:
    """Transformed inputs, (points, vectors * lanes): all blocks of `chunk` tiles, then of the next."""

    buffer: tirx.Buffer
    blocks: int
    chunk: int
    analyzer: Analyzer

    def place(self, block: Expr, tile: Expr) -> Expr:
        """Return the vector number of a block of a tile."""
        chunk, tile = self.chunk, self.analyzer.simplify(tile)
        return self.analyzer.simplify(((tile // chunk) * self.blocks + block) * chunk + tile % chunk)


class _Winograd:
    """Generator of the function.

    The sums are (points, tiles of some channel blocks * lanes): `count` tiles of the first block, then those
    of the next.
    """

    def __init__(self, emitter: Emitter, choice: WinogradChoice) -> None:
        self.emitter, self.choice, self.tile = emitter, choice, choice.tile
        self.nest, self.machine = emitter.nest, emitter.nest.machine
        self.conv, self.lanes, self.analyzer = emitter.conv, emitter.lanes, emitter.analyzer
        self.points, self.taps = points(self.conv.kernel, self.tile), summed(self.conv.kernel, self.tile)
        self.matrices = list(map(matrices, self.tile, self.conv.kernel))
        self.high, self.wide = (-(-out // m) for out, m in zip(self.conv.out, self.tile, strict=True))
        products = self.machine.products_of(emitter.dtype)
        self.depth, self.kinds = products.depth, (products.widened or products.inputs, products.sums)
        self.shift = 0 if products.plain else shift(self.conv.kernel, self.tile)
        self.groups, _points, summed_up, _wide = (int(extent) for extent in emitter.weight.shape)
        self.inner = summed_up * self.depth // self.taps // self.lanes

    def emit(self) -> None:
        """Emit all pieces."""
        if self.machine.pieces.fine:
            self._tiles()
        elif self.choice.order == "rows":
            self._by_rows()
        else:
            self._whole_batch()

    def _by_rows(self) -> None:
        """Emit one parallel piece for some rows of tiles of one image, with all channels."""
        (_start, many, rows), *rest = tiles(self.high, min(self.choice.tile_rows, self.high))
        space = [self.conv.batch, many + len(rest)]
        with self.nest.pieces(space) as (n, band):
            moved = self._inputs((rows + self.taps - 1) * self.wide, self.nest.local)
            sums = self._buffer(self.choice.blocks * rows * self.wide, self.nest.local, self.kinds[1])
            for size, here in [
                (rows, band < many if rest else None),
                *((each[2], band >= many) for each in rest),
            ]:
                with self.nest.when(here):
                    first, count = self.analyzer.simplify(band * rows), size * self.wide
                    with self.nest.grid([self.inner, size + self.taps - 1, self.wide]) as (block, y, x):
                        self._move(moved, n, block, first + y, x, y * self.wide + x)
                    with self.nest.grid([self.groups]) as (group,):
                        self._products(moved, sums, group, count)
                        with self.nest.grid([self.choice.blocks]) as (block,):
                            with self.nest.grid([size, self.wide]) as (y, x):
                                tile = (block * size + y) * self.wide + x
                                self._store(sums, n, group, block, first + y, x, tile)
                            self._halo(n, group, block, size * self.tile[0], first * self.tile[0])

    def _whole_batch(self) -> None:
        """Emit the input transform of all images, then one piece for each group of output channels."""
        batch, rows = self.conv.batch, self.high + self.taps - 1
        count = batch * self.high * self.wide
        moved = self._inputs(batch * rows * self.wide, self.nest.shared)
        with (
            self.nest.pieces([batch, self.inner, rows]) as (n, block, y),
            self.nest.grid([self.wide]) as (x,),
        ):
            self._move(moved, n, block, y, x, (n * rows + y) * self.wide + x)
        with self.nest.pieces([self.groups]) as (group,):
            sums = self._buffer(self.choice.blocks * count, self.nest.local, self.kinds[1])
            self._products(moved, sums, group, count)
            with self.nest.grid([self.choice.blocks]) as (block,):
                with self.nest.grid([batch, self.high, self.wide]) as (n, y, x):
                    tile = block * count + (n * self.high + y) * self.wide + x
                    self._store(sums, n, group, block, y, x, tile)
                with self.nest.grid([batch]) as (n,):
                    self._halo(n, group, block, self.conv.out[0], tirx.const(0, "int32"))

    def _tiles(self) -> None:
        """Emit every tile as a piece of its own: input transform, products, output transform."""
        batch, rows, zero = self.conv.batch, self.high + self.taps - 1, tirx.const(0, "int32")
        blocks, count = self.groups * self.choice.blocks, batch * self.high * self.wide
        moved = self._inputs(batch * rows * self.wide, self.nest.shared)
        with self.nest.pieces([batch, self.inner, rows, self.wide]) as (n, block, y, x):
            self._move(moved, n, block, y, x, (n * rows + y) * self.wide + x)
        sums = self._buffer(blocks * count, self.nest.shared, self.kinds[1])
        cut = tiles(count, self.choice.columns)
        turns = sum(many for _start, many, _size in cut)
        for start, many, size in cut:
            space = [prod(self.points), self.groups, many]
            with self.nest.pieces(space, group=self.choice.group) as (point, group, tile):
                turn = self.analyzer.simplify(tile + start // self.choice.columns)
                first = group * self.choice.blocks
                self._tile(moved, sums, count, _Turn(group, point, turn, turns, size), first)
        with self.nest.pieces([batch, blocks, self.high, self.wide]) as (n, block, y, x):
            tile = block * count + (n * self.high + y) * self.wide + x
            self._store(sums, n, zero, block, y, x, tile)
            with self.nest.grid([self.tile[0]]) as (step,):
                row = y * self.tile[0] + step
                with self.nest.when(row < self.conv.out[0] if self.conv.out[0] % self.tile[0] else None):
                    self.emitter.zero_halo_of_tile(n, block, [row], x * self.tile[1], self.tile[1])

    def _inputs(self, count: int, allocate: Allocate) -> _Inputs:
        """Return a buffer for the transformed inputs of `count` tiles.

        If each is read once, they are stored in the order in which the products read them.
        """
        chunk = self.choice.columns if self.taps == 1 else count
        buffer = self._buffer(-(-count // chunk) * chunk * self.inner, allocate, self.kinds[0])
        return _Inputs(buffer, self.inner, chunk, self.analyzer)

    def _buffer(self, vectors: int, allocate: Allocate, dtype: str) -> tirx.Buffer:
        """Return a buffer of a type with `vectors` vectors for each point.

        The distance between two points is an odd number of cache lines: values that a transform reads or
        writes together must not fall into the same set of the cache.
        """
        line = LINE * 4 // DataType(dtype).itemsize
        lines = -(-vectors * self.lanes // line)
        return allocate((prod(self.points), (lines | 1) * line), dtype)

    def _move(self, moved: _Inputs, n: Expr, block: Expr, y: Expr, x: Expr, tile: Expr) -> None:
        """Emit the transform of one input tile."""
        (high, wide), lanes = self.points, self.lanes
        first = [
            place * m + before
            for place, m, before in zip((y, x), self.tile, self.emitter.origin, strict=True)
        ]
        kind = self.kinds[0]
        rows = [self.nest.local((wide * lanes,), kind) for _ in range(high)]
        with self.nest.unroll(wide) as column, self.nest.vector(lanes) as lane:
            read = [self.emitter.x[(n, block, first[0] + k, first[1] + column, lane)] for k in range(high)]
            source = [value.astype(kind) for value in read]
            for row, value in zip(rows, applied(self.matrices[0].inputs, source), strict=True):
                ir.buffer_store(row, value, [column * lanes + lane])
        place = moved.place(block, tile)
        for number, row in enumerate(rows):
            with self.nest.vector(lanes) as lane:
                source = [row[k * lanes + lane] for k in range(wide)]
                for own, value in enumerate(applied(self.matrices[1].inputs, source)):
                    ir.buffer_store(moved.buffer, value, [number * wide + own, place * lanes + lane])

    def _products(self, moved: _Inputs, sums: tirx.Buffer, group: Expr, count: int) -> None:
        """Multiply every point's input matrix (tiles, ci * taps) by its weights (ci * taps, N V)."""
        cut = tiles(count, self.choice.columns)
        turns = sum(many for _start, many, _size in cut)
        with self.nest.grid([prod(self.points)]) as (point,):
            for start, many, size in cut:
                with self.nest.grid([many]) as (tile,):
                    turn = self.analyzer.simplify(tile + start // self.choice.columns)
                    self._tile(moved, sums, count, _Turn(group, point, turn, turns, size))

    def _tile(
        self, moved: _Inputs, sums: tirx.Buffer, count: int, at: _Turn, first_block: Expr | int = 0
    ) -> None:
        """Multiply the tiles of a turn by the weights of one point and one group.

        Parameters
        ----------
        first_block
            First block of the group in the sums.
        """
        lanes, weight, columns = self.lanes, self.emitter.weight, self.choice.columns
        instruction, count_of = self.machine.instruction(self.emitter.dtype), self.inner * self.taps * lanes
        choice = self.choice
        products = Tile(self.nest, instruction, choice.blocks, at.size, count_of, choice.loads)
        by_lane, inputs = instruction.operand == "lane", products.inputs(lanes)
        with products.loops([self.taps, self.inner], lanes) as (tap, block):
            step = tap * self.inner + block
            first = moved.place(block, at.turn * columns + tap * self.wide)
            if by_lane and self.machine.prefetches:  # before the inputs are loaded
                self._fetch(at, step)
            inputs.multiply(
                lambda column, channel: moved.buffer[at.point, (first + column) * lanes + channel],
                lambda channel, number, lane: self._weight(
                    weight, at, step * lanes + channel, number * lanes + lane
                ),
                None if by_lane else lambda part: self._fetch(at, step * (lanes // self.depth) + part[0]),
            )
        for place, total in enumerate(products.totals):
            with self.nest.unroll(at.size) as column, self.nest.vector(lanes) as lane:
                index = ((first_block + place) * count + at.turn * columns + column) * lanes + lane
                ir.buffer_store(sums, total[column * lanes + lane], [at.point, index])

    def _weight(self, weight: tirx.Buffer, at: _Turn, channel: Expr, output: Expr) -> Expr:
        """Return the weight of an input channel and an output of a group, see `weight_shape`."""
        if self.depth > 1:
            output = output * self.depth + self.analyzer.simplify(channel % self.depth)
            channel = self.analyzer.simplify(channel // self.depth)
        return weight[at.group, at.point, channel, output]

    def _fetch(self, at: _Turn, step: Expr) -> None:
        """Prefetch this step's share of the weights of the next point."""
        inner = self.inner * self.taps * self.lanes // self.depth
        wide = self.choice.blocks * self.lanes * self.depth
        near, following = (
            inner * wide * DataType(str(self.emitter.weight.dtype)).itemsize <= _NEAR,
            at.point + 1,
        )
        if self.machine.operand == "lane":  # whole rows, some twice: another running address would cost more
            lines = -(-self.lanes * wide // LINE)
            share = -(-lines // at.turns)
            for line in range(share):
                place = self.analyzer.simplify((at.turn * share + line) % lines * LINE)
                prefetch(self.emitter.weight, [at.group, following, step * self.lanes, place], near)
            return
        first: list[Expr | int] = [at.group, following, 0, 0]
        steps = at.turns * inner
        step = at.turn * inner + step
        prefetch_share(self.emitter.weight, first, inner * wide, step, steps, self.analyzer, near)

    def _store(
        self, sums: tirx.Buffer, n: Expr, group: Expr, block: Expr, y: Expr, x: Expr, tile: Expr
    ) -> None:
        """Transform the sums of one tile back and store the output."""
        (high, wide), lanes = self.points, self.lanes
        out_block = group * self.choice.blocks + block
        rows = [self.nest.local((wide * lanes,), self.kinds[1]) for _ in range(self.tile[0])]
        with self.nest.unroll(wide) as point, self.nest.vector(lanes) as lane:
            source = [sums[k * wide + point, tile * lanes + lane] for k in range(high)]
            for held, value in zip(rows, applied(self.matrices[0].outputs, source), strict=True):
                ir.buffer_store(held, value, [point * lanes + lane])

        def write(value: Expr, row: Expr | int, column: Expr | int, lane: Expr) -> None:
            index = [y * self.tile[0] + row, x * self.tile[1] + column]
            self.emitter.store(value, [n, out_block * lanes + lane, *index])

        def inside(row: Expr | int, column: Expr | int) -> AbstractContextManager[None]:
            place = [y * self.tile[0] + row, x * self.tile[1] + column]
            ends = [
                where < out for where, out, m in zip(place, self.conv.out, self.tile, strict=True) if out % m
            ]
            return self.nest.when(tirx.all(*ends) if ends else None)

        def output(row: int, column: int, lane: Expr) -> Expr:
            source = [rows[row][k * lanes + lane] for k in range(wide)]
            value = applied(self.matrices[1].outputs, source)[column]
            return tirx.shift_right(value, tirx.const(self.shift, self.kinds[1])) if self.shift else value

        each = [(row, column) for row in range(self.tile[0]) for column in range(self.tile[1])]
        if not self.emitter.long:
            for row, column in each:
                with inside(row, column), self.nest.vector(lanes) as lane:
                    write(output(row, column, lane), row, column, lane)
            return
        waiting = self.nest.local((len(each) * lanes,), self.kinds[1])
        for place, (row, column) in enumerate(each):
            with self.nest.vector(lanes) as lane:
                ir.buffer_store(waiting, output(row, column, lane), [place * lanes + lane])
        with (
            self.nest.grid(self.tile[:1]) as (y_of,),
            self.nest.unroll(self.tile[1]) as x_of,
            inside(y_of, x_of),
            self.nest.vector(lanes) as lane,
        ):
            write(waiting[(y_of * self.tile[1] + x_of) * lanes + lane], y_of, x_of, lane)

    def _halo(self, n: Expr, group: Expr, block: Expr, rows: int, first: Expr) -> None:
        """Write the zeros around the output's rows from `first` on."""
        if not any(self.emitter.layout(self.emitter.read.output).halo):
            return
        with self.nest.grid([rows]) as (step,):
            row = first + step
            with self.nest.when(row < self.conv.out[0] if self.conv.out[0] % self.tile[0] else None):
                self.emitter.zero_halo(n, group * self.choice.blocks + block, [row])

"""Direct convolution on packed values.

A register tile of `blocks` output blocks x `columns` output columns sums up over input channels and the
kernel. The weight is packed in the order in which it is read.

For small images with many channels, every tile would read all weights of a piece again, the first time from
memory. There the reduction is divided into passes over `depth` input blocks each: their weights stay in L1
for all tiles of the piece, the partial sums wait in the output, if it is of their type, and every step
prefetches a part of the next pass's weights. Measured on an AVX-512 server core, weights from memory, ms: 512
channels 7x7, kernel 3x3: 2.20 without passes, 1.84 with passes, 1.24 with prefetch; 1x1 512 to 2048 7x7:
0.92, 0.82, 0.57.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.direct.choice import DirectChoice, halo, inside
from toolchain.backends.packed.algorithms.direct.space import (
    Stripe,
    columns_of_stripe,
    cut,
    merged,
    stripe_shapes,
    weight_shape,
)
from toolchain.backends.packed.dot_products import DEPTH
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.emitter import Emitter
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest, Words, store_all
from toolchain.backends.packed.loops.prefetch import prefetch_share
from toolchain.backends.packed.loops.tile import Tile
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pairs import TOGETHER, Pairs
from toolchain.backends.packed.pieces import places
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr, Read

_ROW_OF_PAIRS = 3  # the same for products in pairs: 0.242 instructions a product in place of 0.258
_FEW_REGISTERS = 16
_WRITTEN = 0  # a row with at most that many taps is fully unrolled


def direct(
    read: Read, conv: Convolution, choice: DirectChoice, layouts: Layouts, machine: Machine
) -> tirx.PrimFunc:
    """Return the packed function of a convolution, epilogue included."""

    def body(nest: Nest) -> None:
        source = layouts[read.parameter(conv.x)]
        input_lanes = machine.lanes if source is None else source.lanes
        depth = machine.products_of(conv.dtype).depth
        shape = weight_shape(conv, choice, machine.lanes, input_lanes, depth)
        emitter = Emitter(nest, read, conv, layouts, shape, halo(conv, choice))
        emitter.widen()
        made = _Direct(emitter, conv, choice, input_lanes)
        if machine.pieces.fine:
            made.tiles()
        else:
            made.pieces()

    return build(machine, body)


@dataclass(frozen=True)
class _Tiles:
    """The tiles of a stripe: its packed weight, and a tile's largest number of columns."""

    stripe: Stripe
    weight: tirx.Buffer
    columns: int

    def block(self, group: Expr, place: Expr | int) -> Expr:
        """Return the output block at a place of a group."""
        return group * self.stripe.blocks + (place + self.stripe.first)


@dataclass(frozen=True)
class _Place:
    """Where a tile is: its image, group of a stripe, place on all axes but the last, first column."""

    n: Expr
    tiles: _Tiles
    group: Expr
    row: list[Expr]
    first: Expr
    columns: int


@dataclass(frozen=True)
class _Pass:
    """One pass over some input blocks: its number, and the current tile of the piece's `tiles`."""

    number: Expr
    tile: Expr
    tiles: int


class _Direct:
    def __init__(self, emitter: Emitter, conv: Convolution, choice: DirectChoice, input_lanes: int) -> None:
        self.emitter, self.conv, self.choice = emitter, conv, choice
        self.nest, self.machine = emitter.nest, emitter.nest.machine
        self.input_lanes, self.analyzer = input_lanes, emitter.analyzer
        depth = self.machine.products_of(conv.dtype).depth
        shapes = stripe_shapes(conv, choice, self.machine.lanes, input_lanes, depth)
        self.groups, self.inner = sum(stripe.groups for stripe, _shape in shapes), shapes[0][1][1]
        self.stripes = [
            _Tiles(stripe, weight, columns_of_stripe(stripe.blocks, choice, conv, self.machine))
            for (stripe, _shape), weight in zip(shapes, self._weights(shapes), strict=True)
        ]
        whole = choice.depth and self.inner % choice.depth == 0
        waits = str(emitter.out.dtype) == conv.dtype  # an output that is rounded to int8 holds no partial sum
        self.depth = choice.depth if whole and waits else self.inner
        self.passes = self.inner // self.depth

    def _weights(self, shapes: Sequence[tuple[Stripe, tuple[int, ...]]]) -> list[tirx.Buffer]:
        """Return the packed weight of each stripe."""
        whole, start, made = self.emitter.weight, 0, []
        if len(shapes) == 1:
            return [whole]
        for _stripe, shape in shapes:
            made.append(ir.decl_buffer(shape, str(whole.dtype), data=whole.data, elem_offset=start))
            start += prod(shape)
        return made

    @contextmanager
    def _of_stripe(self, group: Expr, tiles: _Tiles) -> Iterator[Expr]:
        """Emit what follows if a group of all is one of a stripe; yield its number in the stripe."""
        first, *others = self.stripes
        if not others:
            yield group
            return
        condition = group < first.stripe.groups if tiles is first else group >= first.stripe.groups
        with self.nest.when(condition), self.analyzer.constraint_scope(condition):
            one = tiles.stripe.groups == 1
            yield tirx.IntImm("int32", 0) if one else group

    def pieces(self) -> None:
        """Emit the loops around the tiles."""
        conv, choice, analyzer = self.conv, self.choice, self.analyzer
        spatial = [] if choice.flat else list(conv.out[:-1])
        rows = choice.rows if spatial and spatial[-1] % choice.rows == 0 else 1
        if spatial:
            spatial[-1] //= rows
        by_rows = choice.order == "rows"
        space = [conv.batch, *spatial, self.groups] if by_rows else [self.groups, conv.batch, *spatial]
        with self.nest.pieces(space) as where:
            any_group = where.pop() if by_rows else where.pop(0)
            n, *outer = where

            def rows_of_piece() -> AbstractContextManager[Sequence[Expr]]:
                return self.nest.grid([rows] if spatial else [])

            def row_at(step: Sequence[Expr]) -> list[Expr]:
                return [*outer[:-1], analyzer.simplify(outer[-1] * rows + step[0])] if step else []

            def piece(tiles: _Tiles, group: Expr) -> None:
                parts = cut(conv, tiles.columns, flat=choice.flat)
                across = sum(count for _first, count, _size in parts)
                with (
                    self.nest.grid([self.passes] if self.passes > 1 else []) as pass_,
                    rows_of_piece() as step,
                ):
                    done = 0
                    for start, count, size in parts:
                        with self.nest.grid([count]) as (tile,):
                            number = (step[0] if step else 0) * across + done + tile
                            part = _Pass(pass_[0], number, rows * across) if pass_ else None
                            first = analyzer.simplify(tile * size + start)
                            self.tile(_Place(n, tiles, group, row_at(step), first, size), part)
                        done += count
                if any(self.emitter.layout(self.emitter.read.output).halo):
                    flat_rows = conv.out[:-1] if choice.flat else []
                    with rows_of_piece() as step, self.nest.grid(flat_rows) as flat:
                        for block in range(tiles.stripe.blocks):
                            self.emitter.zero_halo(n, tiles.block(group, block), flat or row_at(step))

            for tiles in self.stripes:
                with self._of_stripe(any_group, tiles) as group:
                    piece(tiles, group)

    def tiles(self) -> None:
        """Emit every tile as a piece of its own."""
        conv, choice, (tiles,) = self.conv, self.choice, self.stripes
        for start, count, size in cut(conv, tiles.columns, flat=choice.flat):
            space = [conv.batch, self.groups, *conv.out[:-1], count]
            with self.nest.pieces(space, group=choice.group) as (n, group, *row, tile):
                first = self.analyzer.simplify(tile * size + start)
                self.tile(_Place(n, tiles, group, row, first, size), None)
                for block in range(tiles.stripe.blocks):
                    self.emitter.zero_halo_of_tile(n, tiles.block(group, block), row, first, size)

    def tile(self, at: _Place, part: _Pass | None) -> None:
        """Emit one tile."""
        emitter, instruction = self.emitter, self.machine.instruction(self.emitter.dtype)
        count = self.depth * self.input_lanes * prod(self.conv.kernel)
        tile = Tile(self.nest, instruction, at.tiles.stripe.blocks, at.columns, count, self.choice.loads)
        totals = tile.totals
        if part is not None:
            with self.nest.when(part.number > 0):
                self._each(at, lambda place, here, index: emitter.load_sum(totals[place], [here], index))
        self._reduce(at, tile, part)
        last = None if part is None else tirx.EQ(part.number, self.passes - 1)
        with self.nest.when(last):
            # On Arm the loop would cost more than it saves: a 1x1 layer with SiLU would then execute 1.3
            # times as many instructions on a Cortex-A72, 1.33 times as many on a Cortex-A9.
            store_all(
                emitter,
                tile.joined(),
                at.columns,
                lambda place, column, lane: self._index(at, place, column, lane),
                loop=self.machine.operand == "memory",
            )
        if part is not None:
            with self.nest.when(part.number < self.passes - 1):
                self._each(at, lambda place, here, index: emitter.store_sum(totals[place][here], index))

    def _each(self, at: _Place, do: Callable[[int, Expr, list[Expr]], None]) -> None:
        """Call `do` with every vector of the tile: block, place in its buffer, logical index."""
        lanes = self.machine.lanes
        for place in range(at.tiles.stripe.blocks):
            with self.nest.unroll(at.columns) as column, self.nest.vector(lanes) as lane:
                do(place, column * lanes + lane, self._index(at, place, column, lane))

    def _index(self, at: _Place, place: Expr | int, column: Expr, lane: Expr) -> list[Expr]:
        """Return the logical index of a lane of a vector of the tile."""
        channel = at.tiles.block(at.group, place) * self.machine.lanes + lane
        return [at.n, channel, *self._output(at, column)]

    def _output(self, at: _Place, column: Expr) -> list[Expr]:
        """Return the spatial position of a column of the tile."""
        place = self.analyzer.simplify(at.first + column)
        return places(place, self.conv.out, self.analyzer) if self.choice.flat else [*at.row, place]

    def _source(self, at: _Place, block: Expr, taps: list[Expr], column: Expr, channel: Expr) -> Expr:
        """Return the input that a tap of the kernel reads for a column."""
        return self._load(at, block, self._read_at(self._output(at, column), taps), channel)

    def _read_at(self, place: Sequence[Expr], taps: Sequence[Expr]) -> list[Expr]:
        """Return the position that a tap of the kernel reads, on the first axes or on all."""
        conv, origin = self.conv, self.emitter.origin
        axes = zip(place, taps, conv.stride, conv.dilation, origin, strict=False)
        return [each * stride + tap * dilation + start for each, tap, stride, dilation, start in axes]

    def _load(self, at: _Place, block: Expr, spatial: list[Expr], channel: Expr | int) -> Expr:
        group = self.analyzer.simplify(at.group // (self.groups // merged(self.conv, self.machine.lanes)[0]))
        return tirx.BufferLoad(self.emitter.x, [at.n, group * self.inner + block, *spatial, channel])

    def _weight(self, at: _Place, step: Sequence[Expr], channel: Expr, output: Expr) -> Expr:
        """Return the weight of an input channel and an output of a group, see `stripe_shapes`."""
        depth = self.machine.products_of(self.emitter.dtype).depth
        if depth > 1:
            k = self.analyzer.simplify(channel % depth)
            channel, output = self.analyzer.simplify(channel // depth), output * depth + k
        return at.tiles.weight[(at.group, *step, channel, output)]

    def _reduce(self, at: _Place, tile: Tile, part: _Pass | None) -> None:
        """Add the products of the tile, of one pass or of all input blocks."""
        if isinstance(tile.instruction, Pairs):
            self._reduce_pairs(at, tile)
            return
        if self.machine.operand == "lane" and self.input_lanes == 1 and not self.choice.flat and part is None:
            self._reduce_row(at, tile)
            return
        conv, vector, lanes = self.conv, self.input_lanes, self.machine.lanes
        inputs = tile.inputs(vector)
        # With one lane the loops over taps are outside: LLVM unrolls the inner loops, and would keep values
        # that neighbouring taps share in more registers than there are (3 channels, 3x3 stride 2: 0.46, not
        # 0.13 ms).
        extents = [*conv.kernel, self.depth] if vector == 1 else [self.depth, *conv.kernel]
        # If the taps of a row are unrolled, their addresses are computed once.
        written = vector > 1 and self.machine.pieces.fine and conv.kernel[-1] <= _WRITTEN
        columns = [extents.pop()] if written else []
        with tile.loops(extents, vector) as found, self.nest.grid(columns, unrolled=True) as last:
            step, *taps = [found[-1], *found[:-1]] if vector == 1 else [*found, *last]
            block = step if part is None else part.number * self.depth + step
            with self._where_inside(at, taps):
                inputs.multiply(
                    lambda column, channel: self._source(at, block, taps, column, channel),
                    lambda channel, number, lane: self._weight(
                        at, [block, *taps], channel, number * lanes + lane
                    ),
                    lambda channel: self._fetch(at, part, [step, *taps, *channel]),
                )

    def _reduce_row(self, at: _Place, tile: Tile) -> None:
        """Add the products one input channel after the other, with its neighbouring columns in one register.

        A part of a row is loaded once for all its taps. Instructions per vector of products on a Cortex-A72,
        3 channels, 7x7 stride 2: 1.18 instead of 1.84.
        """
        stride, dilation, packed = self.conv.stride[-1], self.conv.dilation[-1], at.tiles.weight
        lanes, *above, wide = self.machine.lanes, *self.conv.kernel
        length = (at.columns - 1) * stride + (wide - 1) * dilation + 1
        first = at.first * stride + self.emitter.origin[-1]
        inputs = self.nest.local((length,), self.emitter.dtype)
        with (
            tile.loops([self.depth, *above], wide) as (block, *taps),
            self._where_inside(at, taps),
        ):
            row = self._read_at(at.row, taps)
            for begin, many, size in self.nest.vectors(length):
                for start in range(begin, begin + many * size, size):

                    def value(lane: Expr, start: int = start) -> Expr:
                        return self._load(at, block, [*row, first + start + lane], 0)

                    self.nest.load(inputs, start, size, value)
            with self.nest.unroll(wide) as tap:
                place = (at.group, block, *taps, tap, 0)

                def of_tap(_k: int, number: int, lane: Expr) -> Expr:
                    return packed[(*place, number * lanes + lane)]

                weight = tile.kept(of_tap) if self.choice.loads == "weights" else of_tap
                with self.nest.unroll(at.columns) as column:
                    x = inputs[column * stride + tap * dilation]
                    tile.add(column, lambda _k: x, weight)

    def _reduce_pairs(self, at: _Place, tile: Tile) -> None:
        """Add products in pairs: of two input blocks, or of two neighbouring taps of the last block."""
        vector, lanes, (*above, wide) = self.input_lanes, self.machine.lanes, self.conv.kernel
        inputs = [Words(self.nest, at.columns, vector // DEPTH) for _ in range(TOGETHER)]
        blocks, rest = divmod(self.depth, TOGETHER)
        # With 16 registers, LLVM would load too much ahead, and spill.
        unrolled = self.machine.registers > _FEW_REGISTERS

        def weight(step: list[Expr], k: int, number: int, lane: Expr) -> Expr:
            return self._weight(at, step, tirx.const(k, "int32"), number * lanes + lane)

        def both(steps: Sequence[tuple[Expr, list[Expr]]]) -> None:
            weights = []
            for own, (block, taps) in zip(inputs, steps, strict=False):
                own.load(partial(self._source, at, block, taps))
                weights.append(partial(weight, [block, *taps]))
            tile.add_pairs([own.word for own, _step in zip(inputs, steps, strict=False)], weights)

        if blocks:
            written = [wide] if unrolled and wide <= _ROW_OF_PAIRS else []
            serial = [blocks, *above] if written else [blocks, *self.conv.kernel]
            with (
                tile.loops(serial, vector) as (pair, *where),
                self.nest.grid(written, unrolled=True) as across,
                self._where_inside(at, taps := [*where, *across]),
            ):
                both([(self.nest.simplify(pair * TOGETHER + k), taps) for k in range(TOGETHER)])
        if rest:
            last = tirx.const(self.depth - 1, "int32")
            pairs, odd = divmod(wide, TOGETHER)
            with tile.loops(above, vector) as rows, self._where_inside(at, [*rows]):
                with self.nest.grid([pairs] if pairs else [], unrolled=unrolled) as found:
                    for pair in found:
                        both([(last, [*rows, pair * TOGETHER + k]) for k in range(TOGETHER)])
                if odd:
                    both([(last, [*rows, tirx.const(wide - 1, "int32")])])

    def _where_inside(self, at: _Place, taps: list[Expr]) -> AbstractContextManager[None]:
        """Emit what follows under the condition that the taps (on the first or all axes) meet the image."""
        place = [*at.row, at.first]
        return self.nest.when(inside(self.conv, self.choice, place, at.columns, taps, self.analyzer))

    def _fetch(self, at: _Place, part: _Pass | None, step: list[Expr]) -> None:
        """Prefetch this step's share of the next pass's weights."""
        if part is None or not self.machine.prefetches:
            return
        extents = [self.depth, *self.conv.kernel, self.input_lanes][: len(step)]
        count, index = prod(extents), tirx.const(0, "int32")
        for place, extent in zip(step, extents, strict=True):
            index = index * extent + place
        shape = [int(extent) for extent in at.tiles.weight.shape]
        elements, steps, now = self.depth * prod(shape[2:]), part.tiles * count, part.tile * count + index
        following: list[Expr | int] = [at.group, (part.number + 1) * self.depth, *[0] * len(shape[2:])]
        prefetch_share(at.tiles.weight, following, elements, now, steps, self.analyzer, near=False)

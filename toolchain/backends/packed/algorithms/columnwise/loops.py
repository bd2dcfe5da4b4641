"""Convolution of few output channels on plain values.

A register tile has some output channels x some vectors of neighbouring columns. It sums up over input
channels and taps, with one weight for each vector of inputs. In blocks of channels, as in `direct`, most
lanes would be padding: one channel with 256 taps at stride 2 took 15 times as long.

If windows reach beyond the image or have a stride, a piece first copies the inputs it reads, see `window`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.columnwise.choice import (
    ColumnwiseChoice,
    InputWindow,
    Taps,
    columns_of_piece,
    needs_window,
    taps_of,
    weight_shape,
)
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.elementary import WRITTEN_OUT
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest, shares, store_all, tiles
from toolchain.backends.packed.loops.tile import Tile
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.expressions import calls, epilogue
from toolchain.backends.packed.recognise.read import Expr, Read, shape_of

_FEW = 7  # a row with at most that many taps is fully unrolled
_AT_ONCE = 8  # weights whose products are unrolled in longer rows


def columnwise(
    read: Read, conv: Convolution, choice: ColumnwiseChoice, layouts: Layouts, machine: Machine
) -> tirx.PrimFunc:
    """Return the function of a convolution, epilogue included.

    Parameters
    ----------
    layouts
        Layouts of the parameters; all must be plain.
    """
    if any(layouts):
        raise ValueError(f"{conv.y.name}: it is computed on plain values")
    shape = weight_shape(conv, choice)
    return build(machine, lambda nest: Columns(nest, read, conv, choice, shape).emit())


@dataclass(frozen=True)
class Place:
    """The position of a tile.

    Attributes
    ----------
    n, group, row, first
        Position in the output: image, tile of channels, place on all axes but the last, first column.
    inside, column
        The same row and column in the buffer that is read: the window or the input.
    vectors
        Number of vectors of columns in the tile.
    last
        Start of the tile's last vector relative to `first`, so that it ends with the row; None: the vectors
        follow each other.
    """

    n: Expr
    group: Expr
    row: Sequence[Expr]
    first: Expr
    inside: Sequence[Expr]
    column: Expr
    vectors: int
    last: int | None


def _same(weight: Expr, _k: int) -> Expr:
    return weight


class Columns:
    """Generator of the function.

    Parameters
    ----------
    shape
        Shape of the packed weight: (co / channels, ci of a group, …, consecutive taps * channels).
    """

    def __init__(
        self, nest: Nest, read: Read, conv: Convolution, choice: ColumnwiseChoice, shape: Sequence[int]
    ) -> None:
        self.nest, self.read, self.conv, self.choice = nest, read, conv, choice
        self.machine, self.lanes, self.analyzer = nest.machine, nest.machine.lanes, nest.analyzer
        self.arguments = []
        for param in read.params:
            own = tuple(shape) if param.same_as(conv.weight) else shape_of(param)
            self.arguments.append(ir.arg(param.name, ir.buffer(own, str(param.dtype))))
        self.x, self.weight, self.out = (
            self.arguments[read.parameter(each)] for each in (conv.x, conv.weight, read.output)
        )
        self.dtype = str(conv.x.dtype)  # of the products; `y` may be wider

    def emit(self) -> None:
        """Emit all pieces; a piece has all channels of some rows, or of a part of a row."""
        conv, choice, nest = self.conv, self.choice, self.nest
        rows = choice.rows if len(conv.out) > 1 else 1
        outer = list(conv.out[:-1])
        if outer:
            outer[-1] //= rows
        wide = columns_of_piece(conv, choice, self.machine)
        parts = -(-conv.out[-1] // wide)
        with nest.pieces([conv.batch, *outer, parts]) as (n, *where, part):
            # The last part ends with the row; it may repeat columns of the part before, with equal results.
            first = nest.simplify(tirx.min(part * wide, conv.out[-1] - wide))
            row = [*where[:-1], nest.simplify(where[-1] * rows)] if where else []
            window = InputWindow(nest, conv, choice, self.x, wide) if needs_window(conv) else None
            if window is not None:
                window.fill(n, row, first)
            with (
                nest.grid([conv.co // choice.channels]) as (group,),
                nest.grid([rows] if row else []) as step,
            ):
                here = [*row[:-1], nest.simplify(row[-1] + step[0])] if row else []
                inside = [*[tirx.const(0, "int32") for _ in row[:-1]], *step] if window else here
                for start, count, size, last in self._cut(wide):
                    with nest.grid([count]) as (tile,):
                        column = nest.simplify(tile * size * self.lanes + start)
                        begin = column if window else nest.simplify(column + first)
                        at = Place(n, group, here, nest.simplify(first + column), inside, begin, size, last)
                        self.tile(at, window)

    def _cut(self, wide: int) -> list[tuple[int, int, int, int | None]]:
        """Return the tiles of a row: (first column, number of tiles, vectors per tile, `last` of a place)."""
        lanes = self.lanes
        found: list[tuple[int, int, int, int | None]] = []
        for start, count, size in shares(-(-wide // lanes), self.choice.vectors):
            found.append((start * lanes, count, size, None))
        if wide % lanes:
            start, count, size, _none = found.pop()
            if count > 1:
                found.append((start, count - 1, size, None))
            start += (count - 1) * size * lanes
            found.append((start, 1, size, wide - lanes - start))
        return found

    def sums(self, at: Place, taps: int) -> Tile:
        """Return the sums of a tile, for `taps` taps of each input channel."""
        instruction, count = self.machine.instruction(self.dtype), self.conv.ci // self.conv.groups * taps
        return Tile(self.nest, instruction, at.vectors, self.choice.channels, count, "weights")

    def tile(self, at: Place, window: InputWindow | None) -> None:
        """Emit one tile."""
        conv, choice = self.conv, self.choice
        tile = self.sums(at, prod(conv.kernel))
        for taps in taps_of(conv):
            for start, many, size in tiles(taps.each, self._at_once(taps)):
                self._sum(at, tile, window, taps, start, many, size)

        def index(vector: Expr, channel: Expr, lane: Expr) -> list[Expr]:
            place = at.first + self.vector(at, vector) + lane
            return [at.n, at.group * choice.channels + channel, *at.row, self.nest.simplify(place)]

        loop = self.machine.operand == "memory"
        store_all(self, tile.totals, choice.channels, index, loop=loop)

    def _at_once(self, taps: Taps) -> int:
        """Return how many taps of a row are unrolled: all if they are few, else about equal parts."""
        most, few = max(1, _AT_ONCE // self.choice.channels), _FEW
        if self.machine.operand == "lane":
            # Vectors are short: tap t + lanes reads what tap t reads one vector further on. LLVM would keep
            # that value as long as both taps are unrolled, and spill.
            most, few = min(most, self.lanes), self.lanes + 1
        return taps.each if taps.each <= few else -(-taps.each // -(-taps.each // most))

    def vector(self, at: Place, vector: Expr | int) -> Expr | int:
        """Return the first column of a vector, relative to the tile's first column."""
        return vector * self.lanes if at.last is None else tirx.min(vector * self.lanes, at.last)

    def _sum(
        self, at: Place, tile: Tile, window: InputWindow | None, taps: Taps, start: int, many: int, size: int
    ) -> None:
        """Add the products of some taps of each row: `many` times `size` of each phase, from `start`."""
        conv, nest = self.conv, self.nest
        inner = conv.ci // conv.groups
        with tile.loops([inner, *conv.kernel[:-1], taps.phases, many], size) as (own, *above, phase, step):
            lines = [
                place * stride + tap * dilation
                for place, stride, tap, dilation in zip(
                    at.inside, conv.stride, above, conv.dilation, strict=False
                )
            ]
            number = taps.start + phase * taps.each + start + step * size
            weights = self.weights([at.group, own, *above], nest.simplify(number), size)
            for tap in range(size):
                column = at.column + (start + step * size + tap) * conv.dilation[-1]
                self.multiply(
                    at, tile, window, [own, *lines, phase + taps.first, column], partial(weights, tap)
                )

    def multiply(
        self,
        at: Place,
        tile: Tile,
        window: InputWindow | None,
        place: Sequence[Expr],
        weight: Callable[[Expr], Expr],
    ) -> None:
        """Add up the products of one tap.

        Parameters
        ----------
        place
            Input channel of the group, row, phase of the window and column of what the tap meets.
        weight
            Channel of the tile -> its weight.
        """
        nest, conv = self.nest, self.conv
        each = conv.co // conv.groups // self.choice.channels  # tiles of a group
        own, *lines, phase, column = place
        channel_of_x = nest.simplify(at.group // each * (conv.ci // conv.groups) + own)

        def inputs(_k: int, vector: int, lane: Expr) -> Expr:
            along = nest.simplify(column + self.vector(at, vector) + lane)
            if window is None:
                return tirx.BufferLoad(self.x, [at.n, channel_of_x, *lines, along])
            return tirx.BufferLoad(window.buffer, [channel_of_x, *lines, phase, along])

        kept = tile.kept(inputs)
        with nest.unroll(self.choice.channels) as channel:
            tile.add(channel, partial(_same, weight(channel)), kept)

    def weights(self, place: list[Expr], number: Expr, size: int) -> Callable[[int, Expr], Expr]:
        """Return what reads the weights of `size` taps from `number` on: tap and channel -> the weight."""
        channels, nest = self.choice.channels, self.nest
        if self.machine.operand == "memory":
            return lambda tap, channel: self.weight[(*place, (number + tap) * channels + channel)]
        kept = nest.local((size * channels,), self.dtype)
        for first, many, count in nest.vectors(size * channels):
            for begin in range(first, first + many * count, count):
                with nest.vector(count) as lane:
                    value = self.weight[(*place, number * channels + begin + lane)]
                    ir.buffer_store(kept, value, [begin + lane])
        return lambda tap, channel: kept[tap * channels + channel]

    @cached_property
    def long(self) -> bool:
        """Whether the epilogue (operators after the convolution) has a function that becomes long code."""
        index = [tirx.Var("i", "int32") for _ in self.read.output.shape]
        total = tirx.const(0, str(self.conv.y.dtype))
        value = epilogue(self.read, self.conv.y, total, index, self._stored, self.analyzer)
        return calls(value, *WRITTEN_OUT) > 0

    def store(self, total: Expr, index: Sequence[Expr]) -> None:
        """Write the output at a logical index, given the convolution's sum there."""
        total = total.astype(str(self.conv.y.dtype))
        value = epilogue(self.read, self.conv.y, total, index, self._stored, self.analyzer)
        ir.buffer_store(self.out, value.astype(str(self.out.dtype)), list(index))

    def _stored(self, buffer: tirx.Buffer, index: list[Expr]) -> Expr | None:
        place = self.read.place(buffer)
        return None if place is None else tirx.BufferLoad(self.arguments[place], index)

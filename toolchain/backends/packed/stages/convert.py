"""Functions that convert values between the plain layout and packed ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import te, tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.loops.emitter import SMALL, zero_halo, zero_halo_of_tile
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.squares import transposed, vector
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.read import Expr, Read, read
from toolchain.backends.packed.stages.stagewise import stagewise

# Converts values to and from packed layouts by transposing squares in registers.
#
# A block of channels and as many columns form a square of vectors. Gathering single numbers takes several
# times as long, mostly for cache misses.

_PIECES = 8  # parallel pieces per thread
_WORTH = (
    0.75  # least columns of a row relative to those of its squares; 28 by 16 (0.875) is as fast as gathering
)


def applies(shape: Sequence[int], layout: Layout, machine: Machine) -> bool:
    """Return whether squares can convert between plain and this layout, without too much repeated work."""
    width, lanes = _width(shape, layout), layout.lanes
    if lanes == 1 or lanes & (lanes - 1):  # each round of a transpose halves the distance of neighbours
        return False
    if machine.pieces.fine:  # two pieces must not write the same place
        return width > 0 and width % lanes == 0
    return width >= lanes and width >= _WORTH * lanes * -(-width // lanes)


def _width(shape: Sequence[int], layout: Layout) -> int:
    """Return how many columns are contiguous in both layouts: without a halo, the whole image."""
    return shape[-1] if any(layout.halo) else prod(shape[2:])


def transposing(
    shape: Sequence[int], dtype: str, layout: Layout, machine: Machine, *, pack: bool
) -> tirx.PrimFunc:
    """Return the function that converts a plain value to a layout (`pack`), or back."""
    return build(machine, lambda nest: _Transposing(nest, shape, dtype, layout, pack=pack).emit())


class _Transposing:
    def __init__(self, nest: Nest, shape: Sequence[int], dtype: str, layout: Layout, *, pack: bool) -> None:
        self.nest, self.machine, self.analyzer = nest, nest.machine, nest.analyzer
        self.layout, self.lanes, self.pack = layout, layout.lanes, pack
        self.n, self.channels, *self.spatial = shape
        self.width = _width(shape, layout)
        self.dtype = dtype
        shapes = {True: tuple(shape), False: layout.shape(shape)}
        self.source = ir.arg("source", ir.buffer(shapes[pack], dtype))
        self.result = ir.arg("result", ir.buffer(shapes[not pack], dtype))

    def emit(self) -> None:
        """Emit all loops; a piece has some rows of a block."""
        lanes = self.lanes
        rows = self.spatial[:-1] if self.width == self.spatial[-1] else [1] * (len(self.spatial) - 1)
        space = [self.n, self.layout.blocks(self.channels), *rows]
        if self.machine.pieces.fine:
            self._squares([*space, self.width // lanes])
            return
        first: Expr = tirx.IntImm("int32", 0)
        many: Expr = tirx.IntImm("int32", self.width // lanes)
        # Without a halo there is one row, whose squares are divided among pieces.
        cut = prod(rows) == 1 and self.width // lanes >= _PIECES * self.machine.threads
        if cut:
            each = -(-(self.width // lanes) // (_PIECES * self.machine.threads))
            space.append(-(-(self.width // lanes) // each))
        small = self.n * self.channels * prod(self.spatial) < SMALL
        with self.nest.pieces(space, small=small) as (n, block, *row):
            if cut:
                part = row.pop()
                first, many = part * each, tirx.min(each, self.width // lanes - part * each)
            with self.nest.serial(self.width // lanes, many) as step:
                self._block(n, block, row, (first + step) * lanes)
            if self.width % lanes:  # the last square shares columns with the one before
                last = tirx.EQ(part, space[-1] - 1) if cut else None
                with self.nest.when(last):
                    self._block(n, block, row, tirx.IntImm("int32", self.width - lanes))
            if self.pack:
                zero_halo(self.nest, self.result, self.layout, self.spatial, n, block, row)

    def _squares(self, space: Sequence[int]) -> None:
        """Emit every square as a piece of its own."""
        with self.nest.pieces(space) as (n, block, *row, step):
            first = step * self.lanes
            self._block(n, block, row, first)
            if self.pack and any(self.layout.halo):
                at = (n, block, row, first, self.lanes)
                zero_halo_of_tile(self.nest, self.result, self.layout, self.spatial, *at)

    def _block(self, n: Expr, block: Expr, row: list[Expr], column: Expr) -> None:
        """Emit a square, with fewer channels in the last block."""
        full, rest = divmod(self.channels, self.lanes)
        if not rest or not full:
            self._square(n, block, row, column, rest or self.lanes)
            return
        with ir.If(block < full):
            with ir.Then():
                self._square(n, block, row, column, self.lanes)
            with ir.Else():
                self._square(n, block, row, column, rest)

    def _square(self, n: Expr, block: Expr, row: list[Expr], column: Expr, channels: int) -> None:
        lanes, layout = self.lanes, self.layout

        def plain(channel: int) -> list[Expr]:
            return [n, block * lanes + channel, *row, tirx.Ramp(column, 1, lanes)]

        def packed(place: int) -> list[Expr]:
            moved = [
                each + before for each, before in zip([*row, column + place], layout.before, strict=True)
            ]
            return [n, block + layout.offset, *moved, tirx.Ramp(0, 1, lanes)]

        vectors = self.nest.local((lanes * lanes,), self.dtype)
        for i in range(lanes):
            if self.pack and i >= channels:
                value: Expr = tirx.Broadcast(tirx.const(0, self.dtype), lanes)
            else:
                value = tirx.BufferLoad(self.source, plain(i) if self.pack else packed(i))
            ir.buffer_store(vectors, value, [vector(i, lanes)])
        vectors = transposed(self.nest, vectors, lanes)
        for i in range(lanes if self.pack else channels):
            at = packed(i) if self.pack else plain(i)
            ir.buffer_store(self.result, tirx.BufferLoad(vectors, [vector(i, lanes)]), at)


def copy_function(
    shape: Sequence[int], dtype: str, source: Layout | None, target: Layout | None, machine: Machine
) -> tirx.PrimFunc:
    """Return the function that copies a value from one layout to another; None is the plain layout."""
    coarse = not machine.pieces.fine
    if coarse and source is None and target is not None and target.lanes == 1 and not target.whole:
        return _with_halo(shape, dtype, target, machine)
    layout = target if source is None else source if target is None else None
    if layout is not None and applies(shape, layout, machine):
        return transposing(shape, dtype, layout, machine, pack=source is None)
    return stagewise(_identity(shape, dtype), [source, target], machine)


def _identity(shape: Sequence[int], dtype: str) -> Read:
    source = te.placeholder(tuple(shape), dtype, name="source")
    result = te.compute(tuple(shape), lambda *place: source(*place), name="result")
    return read(te.create_prim_func([source, result]))


def _with_halo(shape: Sequence[int], dtype: str, layout: Layout, machine: Machine) -> tirx.PrimFunc:
    """Return a function that copies row by row; `stagewise` would copy single numbers with one lane."""
    full = layout.shape(shape)[:-1]
    width = shape[-1]

    def body(nest: Nest) -> None:
        source = ir.arg("source", ir.buffer(tuple(shape), dtype))
        result = ir.arg("result", ir.buffer((*full, 1), dtype))
        with nest.pieces(full[:-1]) as (n, channel, *row):
            inside = [
                tirx.all(place >= before, place < before + size)
                for place, before, size in zip(row, layout.before, shape[2:], strict=False)
            ]

            def zeros(start: int, count: int) -> None:
                if count:
                    with nest.serial(count) as column:
                        fill = tirx.const(layout.fill, dtype)
                        ir.buffer_store(result, fill, [n, channel, *row, column + start, 0])

            def copy() -> None:
                zeros(0, layout.before[-1])
                moved = [place - before for place, before in zip(row, layout.before, strict=False)]
                for start, many, size in nest.vectors(width):
                    with nest.serial(many) as step, nest.vector(size) as lane:
                        column = step * size + start + lane
                        value = source[(n, channel, *moved, column)]
                        ir.buffer_store(result, value, [n, channel, *row, column + layout.before[-1], 0])
                zeros(layout.before[-1] + width, layout.after[-1])

            if not inside:
                copy()
            else:
                with ir.If(tirx.all(*inside)):
                    with ir.Then():
                        copy()
                    with ir.Else():
                        zeros(0, full[-1])

    return build(machine, body)

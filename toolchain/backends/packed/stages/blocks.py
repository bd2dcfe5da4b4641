"""Loops of a stage that stores a packed value; one row of one block is a piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.loops.emitter import zero_halo, zero_halo_of_tile
from toolchain.backends.packed.loops.nest import tiles
from toolchain.backends.packed.recognise.expressions import bind, calls
from toolchain.backends.packed.recognise.read import Expr, shape_of
from toolchain.backends.packed.stages.plain import shared_reduction, vectors_of
from toolchain.backends.packed.stages.value import StageValue

# Finds where the expression of a stage changes: at padded borders and between concatenated tensors.

# Start and end on each axis (block, *spatial) of a packed value.
Box: TypeAlias = "Sequence[tuple[int, int]]"

_BORDER = 3  # widest padding that is looked for


def conditions(value: StageValue, box: Box, lanes: int) -> int:
    """Count the conditions that remain in a value for a box of its packed output."""
    analyzer = Analyzer()

    def free(start: int, end: int) -> Expr:
        if end - start == 1:
            return tirx.IntImm("int32", start)
        return bind(analyzer, tirx.Var("i", "int32"), end - start) + start

    block, *spatial = (free(start, end) for start, end in box)
    lane = bind(analyzer, tirx.Var("lane", "int32"), lanes)
    index = [tirx.IntImm("int32", 0), block * lanes + lane, *spatial]
    steps = [free(0, extent) for extent in value.reduced]
    return sum(calls(each, "if_then_else") for each in value.values(index, steps, analyzer))


def interior(value: StageValue, box: Box, lanes: int) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Return the rows (for each spatial axis but the last) and the columns that read no padding."""
    if not conditions(value, box, lanes):
        return list(box[1:-1]), box[-1]
    # the conditions of one axis are seen where the other axes have no border
    middle = [(_edge(end), end - _edge(end)) for _start, end in box[1:]]
    found = []
    for axis in range(1, len(box)):
        around = [box[0], *middle]
        around[axis] = box[axis]
        found.append(_inner(value, around, axis, lanes))
    return found[:-1], found[-1]


def _edge(extent: int) -> int:
    return min(_BORDER, (extent - 1) // 2)


def _inner(value: StageValue, box: Box, axis: int, lanes: int) -> tuple[int, int]:
    """Return the largest range of an axis with the fewest conditions."""
    start, end = box[axis]
    found = (conditions(value, box, lanes), 0, start, end)
    for before in range(_BORDER + 1):
        for after in range(_BORDER + 1):
            if found[0] and before + after and end - after > before:
                smaller = [*box[:axis], (before, end - after), *box[axis + 1 :]]
                found = min(found, (conditions(value, smaller, lanes), before + after, before, end - after))
    return found[2:]


def segments(value: StageValue, box: Box, lanes: int) -> list[tuple[int, int]]:
    """Return the ranges of blocks between the starts of a concatenation's operands."""
    (_start, blocks), *rest = box
    whole = [(0, blocks)]
    total = conditions(value, box, lanes)
    if not total or blocks == 1:
        return whole
    each = [conditions(value, [(block, block + 1), *rest], lanes) for block in range(blocks)]
    if min(each) == total:
        return whole
    ends = [
        block
        for block in range(1, blocks)
        if conditions(value, [(block - 1, block + 1), *rest], lanes) > min(each[block - 1], each[block])
    ]
    return list(zip([0, *ends], [*ends, blocks], strict=True))


_COLUMNS = 4  # columns computed together, so that their sums do not wait for each other


class StageLoops:
    """Generator of the loops of one stage.

    Parameters
    ----------
    outs
        Output buffer of each part.
    """

    def __init__(self, value: StageValue, outs: list[tirx.Buffer], layout: Layout) -> None:
        self.value, self.outs, self.layout = value, outs, layout
        self.nest, self.analyzer = value.memory.nest, value.memory.analyzer
        self.n, self.channels, *self.spatial = shape_of(value.target.buffer)
        self.blocks = layout.blocks(self.channels)

    def emit(self) -> None:
        """Emit the loops."""
        vectors = vectors_of(self.value, [self.n, self.channels, *self.spatial], 1)
        if vectors is not None and vectors.results == self.layout.lanes and not any(self.layout.halo):
            shared_reduction(self.value, self.outs[0], self.layout, vectors)
            return
        space = [self.n, self.blocks, *self.spatial[:-1]]
        whole = [(0, self.blocks), *((0, size) for size in self.spatial)]
        cuts = segments(self.value, whole, self.layout.lanes)
        if self.nest.machine.pieces.fine:
            self._tiles(space, cuts)
            return
        with self.value.memory.pieces(space, self.value.stage) as (n, block, *row):
            if len(cuts) > 1:
                for start, end in cuts:
                    inside = tirx.all(block >= start, block < end)
                    self._under(inside, lambda: self._row(n, block, row, 0, self.spatial[-1]))
            else:
                self._interior(n, block, row, whole)
            for out in self.outs:
                zero_halo(self.nest, out, self.layout, self.spatial, n, block, row)

    def _tiles(self, space: list[int], cuts: list[tuple[int, int]]) -> None:
        """Emit every tile, some columns of a row of a block, as a piece of its own."""
        for start, count, size in tiles(self.spatial[-1], _COLUMNS):
            with self.value.memory.pieces([*space, count], self.value.stage) as (n, block, *row, tile):
                first = self.analyzer.simplify(tile * size + start)
                self._of_blocks(n, block, row, first, size, cuts)
                for out in self.outs:
                    at = (n, block, row, first, size)
                    zero_halo_of_tile(self.nest, out, self.layout, self.spatial, *at)

    def _of_blocks(
        self, n: Expr, block: Expr, row: list[Expr], first: Expr, size: int, cuts: list[tuple[int, int]]
    ) -> None:
        """Emit `size` columns from `first` on, with separate code for the blocks of each cut."""

        def columns(padded: bool) -> None:
            for begin, wide in [(each, 1) for each in range(size)] if padded else [(0, size)]:
                self._tile(n, block, row, first + begin, wide, padded=padded)

        if len(cuts) == 1:
            self._padded(block, columns)
            return
        for begin, end in cuts:
            self._under(tirx.all(block >= begin, block < end), lambda: self._padded(block, columns))

    def _under(
        self, condition: Expr, then: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """Emit a branch, whose condition the analyzer can use inside."""
        with ir.If(condition):
            with ir.Then(), self.analyzer.constraint_scope(condition):
                then()
            if otherwise is not None:
                with ir.Else():
                    otherwise()

    def _interior(self, n: Expr, block: Expr, row: list[Expr], whole: list[tuple[int, int]]) -> None:
        """Emit the row, with separate code for the part without conditions (padding)."""
        width = self.spatial[-1]
        lines, columns = interior(self.value, whole, self.layout.lanes)

        def emit_row() -> None:
            for start, end in ((0, columns[0]), columns, (columns[1], width)):
                self._row(n, block, row, start, end)

        limits = [
            tirx.all(place >= start, place < end)
            for place, (start, end), size in zip(row, lines, self.spatial, strict=False)
            if (start, end) != (0, size)
        ]
        if limits:
            self._under(tirx.all(*limits), emit_row, emit_row)
        else:
            emit_row()

    def _row(self, n: Expr, block: Expr, row: list[Expr], start: int, end: int) -> None:
        """Emit the columns from `start` to `end`."""
        if start < end:
            self._padded(block, lambda padded: self._columns(n, block, row, start, end, padded=padded))

    def _padded(self, block: Expr, columns: Callable[[bool], None]) -> None:
        """Emit columns, with separate code for the last block if some of its lanes have no channel."""
        if self.channels % self.layout.lanes == 0:
            columns(False)
            return
        # Only the last block has lanes without a channel. A Select would read operands for them too.
        self._under(block < self.channels // self.layout.lanes, lambda: columns(False), lambda: columns(True))

    def _columns(self, n: Expr, block: Expr, row: list[Expr], start: int, end: int, *, padded: bool) -> None:
        for first, count, size in tiles(end - start, 1 if padded else _COLUMNS):
            with self.nest.grid([count]) as (tile,):
                self._tile(n, block, row, tile * size + (start + first), size, padded=padded)

    def _tile(self, n: Expr, block: Expr, row: list[Expr], base: Expr, size: int, *, padded: bool) -> None:
        """Emit `size` columns from `base` on."""
        lanes, analyzer = self.layout.lanes, self.analyzer
        # Padding that the operands have too may be read and then dropped: that is faster.
        masked = padded and not self._readable()

        def inside(lane: Expr) -> Expr:
            return analyzer.simplify(block * lanes + lane) < self.channels

        def column_at(column: Expr) -> Expr:
            return analyzer.simplify(base + column)

        def index(column: Expr, lane: Expr) -> list[Expr]:
            return [n, block * lanes + lane, *row, column_at(column)]

        def store(column: Expr, lane: Expr, values: list[Expr]) -> None:
            at = zip([*row, column_at(column)], self.layout.before, strict=True)
            moved = [place + before for place, before in at]
            for out, value in zip(self.outs, values, strict=True):
                zero = tirx.const(0, str(out.dtype))
                if padded:
                    keep = tirx.if_then_else if masked else tirx.Select
                    value = keep(inside(lane), value, zero)
                ir.buffer_store(out, value, [n, block + self.layout.offset, *moved, lane])

        self.value.emit(lanes, size, index, store, analyzer, inside if masked else None)

    def _readable(self) -> bool:
        """Return whether reads for lanes without a channel stay within the operands' buffers."""
        analyzer = Analyzer()
        n, *place = (bind(analyzer, tirx.Var("i", "int32"), size) for size in (self.n, *self.spatial))
        lane = bind(analyzer, tirx.Var("lane", "int32"), self.layout.lanes)
        return self.value.within([n, (self.blocks - 1) * self.layout.lanes + lane, *place], analyzer)

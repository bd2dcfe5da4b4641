"""Loops of a stage that writes a packed value: one row of one block is a piece."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.general.value import Value
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.loops.cut import tiles
from toolchain.backends.packed.loops.halo import zero_halo
from toolchain.backends.packed.recognise.borders import interior, segments
from toolchain.backends.packed.recognise.expressions import bind
from toolchain.backends.packed.recognise.read import Expr, shape_of

_COLUMNS = 4  # columns that are computed at once, so that their sums do not wait for each other


class Packed:
    """The loops of one stage.

    Parameters
    ----------
    outs
        Per part what it is stored in.
    """

    def __init__(self, value: Value, outs: list[tirx.Buffer], layout: Layout) -> None:
        self.value, self.outs, self.layout = value, outs, layout
        self.nest, self.analyzer = value.memory.nest, value.memory.analyzer
        self.n, self.channels, *self.spatial = shape_of(value.target.buffer)
        self.blocks = layout.blocks(self.channels)

    def emit(self) -> None:
        """Emit them."""
        space = [self.n, self.blocks, *self.spatial[:-1]]
        whole = [(0, self.blocks), *((0, size) for size in self.spatial)]
        cuts = segments(self.value, whole, self.layout.lanes)
        with self.value.memory.pieces(space, self.value.stage) as (n, block, *row):
            if len(cuts) > 1:
                for start, end in cuts:
                    inside = tirx.all(block >= start, block < end)
                    self._under(inside, lambda: self._row(n, block, row, 0, self.spatial[-1]))
            else:
                self._interior(n, block, row, whole)
            for out in self.outs:
                zero_halo(self.nest, out, self.layout, self.spatial, n, block, row)

    def _under(
        self, condition: Expr, then: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """Emit a branch that the analyzer knows of."""
        with ir.If(condition):
            with ir.Then(), self.analyzer.constraint_scope(condition):
                then()
            if otherwise is not None:
                with ir.Else():
                    otherwise()

    def _interior(self, n: Expr, block: Expr, row: list[Expr], whole: list[tuple[int, int]]) -> None:
        """Emit the row, and by itself the part of it in which no condition (padding) is left."""
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
        if start >= end:
            return
        if self.channels % self.layout.lanes == 0:
            self._columns(n, block, row, start, end, padded=False)
            return
        # Lanes without a channel are in the last block only. A Select would read operands where no
        # channel is.
        self._under(
            block < self.channels // self.layout.lanes,
            lambda: self._columns(n, block, row, start, end, padded=False),
            lambda: self._columns(n, block, row, start, end, padded=True),
        )

    def _columns(self, n: Expr, block: Expr, row: list[Expr], start: int, end: int, *, padded: bool) -> None:
        lanes, analyzer = self.layout.lanes, self.analyzer
        # What is in the padding of the operands too may be read, and then left out: that is faster.
        masked = padded and not self._readable()

        def inside(lane: Expr) -> Expr:
            return analyzer.simplify(block * lanes + lane) < self.channels

        for first, count, size in tiles(end - start, 1 if padded else _COLUMNS):
            with self.nest.grid([count]) as (tile,):

                def column_at(column: Expr, base: Expr = tile * size + (start + first)) -> Expr:
                    return analyzer.simplify(base + column)

                def index(column: Expr, lane: Expr, at: Callable[[Expr], Expr] = column_at) -> list[Expr]:
                    return [n, block * lanes + lane, *row, at(column)]

                def store(
                    column: Expr, lane: Expr, values: list[Expr], at: Callable[[Expr], Expr] = column_at
                ) -> None:
                    moved = [
                        place + before
                        for place, before in zip([*row, at(column)], self.layout.before, strict=True)
                    ]
                    for out, value in zip(self.outs, values, strict=True):
                        zero = tirx.const(0, str(out.dtype))
                        if padded:
                            keep = tirx.if_then_else if masked else tirx.Select
                            value = keep(inside(lane), value, zero)
                        ir.buffer_store(out, value, [n, block + self.layout.offset, *moved, lane])

                self.value.emit(lanes, size, index, store, analyzer, inside if masked else None)

    def _readable(self) -> bool:
        """Whether lanes without a channel read only what is within the operands' buffers."""
        analyzer = Analyzer()
        n, *place = (bind(analyzer, tirx.Var("i", "int32"), size) for size in (self.n, *self.spatial))
        lane = bind(analyzer, tirx.Var("lane", "int32"), self.layout.lanes)
        return self.value.within([n, (self.blocks - 1) * self.layout.lanes + lane, *place], analyzer)

"""The rule for every function that has none of its own, on packed and plain values.

Element-wise stages are computed where they are read; what is left (reductions, what is expensive and
read often, the outputs) is stored. Vectors run along the lanes of a packed value, and along the last axis
of a plain one; the outer axes run in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.building.cpu.core import Core
from toolchain.building.cpu.emit import Layouts, build, grid, places, zero_halo
from toolchain.building.cpu.expressions import bind, bindings, calls, inlined, substitute
from toolchain.building.cpu.layout import Layout, dense_layout
from toolchain.building.cpu.read import Expr, Read, Stage, UnreadableError, Var, shape_of

_COMBINE: dict[type, Callable[[Expr, Expr], Expr]] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Mul: lambda a, b: a * b,
    tirx.Max: tirx.max,
    tirx.Min: tirx.min,
}
_JOBS = 8  # fewer parallel pieces than this are too few for the cores of today's boards
_BORDER = 3  # how far from an edge padding is looked for


def general(read: Read, layouts: Layouts, core: Core) -> tirx.PrimFunc:
    """Return a function's loops by the general rule.

    Raises
    ------
    UnreadableError
        It has a stage that the rule does not know.
    """
    return build(lambda: _General(read, layouts, core.lanes).emit())


class _General:
    def __init__(self, read: Read, layouts: Layouts, lanes: int) -> None:
        self.read, self.lanes = read, lanes
        self.analyzer = Analyzer()
        self.stored: list[tuple[tirx.Buffer, tirx.Buffer, Layout | None]] = []
        self.packed = any(layouts)
        for param, layout in zip(read.params, layouts, strict=True):
            shape = shape_of(param) if layout is None else layout.shape(shape_of(param))
            self.stored.append((param, ir.arg(param.name, ir.buffer(shape, str(param.dtype))), layout))

    def emit(self) -> None:
        for stage in self.read.stages:
            output = self.read.place(stage.buffer) is not None
            if not output and not self._kept(stage):
                continue
            if not output:
                self._allocate(stage.buffer)
            self._stage(stage)

    def _kept(self, stage: Stage) -> bool:
        """Whether a stage's values are stored: to compute them again and again would cost more."""
        if stage.init is not None:
            return True
        readers = self.read.readers(stage.buffer)
        often = len(readers) > 1 or any(reader.init is not None for reader in readers)
        return often and calls(stage.value) > 0

    def _allocate(self, buffer: tirx.Buffer) -> None:
        shape = shape_of(buffer)
        layout = None
        if self.packed and len(shape) >= 3 and shape[1] >= self.lanes and prod(shape[2:]) > 1:
            layout = dense_layout(self.lanes, len(shape))
        extents = shape if layout is None else layout.shape(shape)
        self.stored.append((buffer, ir.alloc_buffer(extents, str(buffer.dtype)), layout))

    def _where(self, buffer: tirx.Buffer) -> tuple[tirx.Buffer, Layout | None] | None:
        return next(((new, layout) for own, new, layout in self.stored if own.same_as(buffer)), None)

    def _stage(self, stage: Stage) -> None:
        out, layout = next((new, layout) for own, new, layout in self.stored if own.same_as(stage.buffer))
        value = _Value(self, stage)
        if layout is None:
            _plain(self, stage, value, out)
        else:
            _Packed(self, stage, value, out, layout).emit()


class _Value:
    """The value of one stage, as a vector."""

    def __init__(self, general: _General, stage: Stage) -> None:
        self.general, self.stage = general, stage
        self.reduced = [extent for extent, reduce in zip(stage.extents, stage.reduce, strict=True) if reduce]
        self.combine: Callable[[Expr, Expr], Expr] | None = None
        self.value = stage.value
        if stage.init is not None:
            known = _COMBINE.get(type(self.value))
            own = getattr(self.value, "a", None)
            if known is None or not isinstance(own, TensorLoad) or not own.source.same_as(stage.buffer):
                raise UnreadableError(f"block {stage.name} reduces in a way of its own")
            self.combine, self.value = known, self.value.b

    def at(self, index: Sequence[Expr], reduced: Sequence[Expr], analyzer: Analyzer) -> Expr:
        """Return the value (of one step, if it is a reduction) at a logical index."""
        axes = [axis for axis, reduce in zip(self.stage.axes, self.stage.reduce, strict=True) if reduce]
        bound = [*bindings(self.stage, index), *zip(axes, reduced, strict=True)]

        def stored(buffer: tirx.Buffer, place: list[Expr]) -> Expr | None:
            found = self.general._where(buffer)
            if found is None:
                return None
            new, layout = found
            return tirx.BufferLoad(new, place if layout is None else layout.at(place, analyzer))

        value_at = inlined(self.general.read, stored, analyzer)
        return analyzer.simplify(substitute(self.value, bound, value_at))

    def emit(
        self,
        width: int,
        index: Callable[[Var], list[Expr]],
        store: Callable[[Var, Expr], None],
        analyzer: Analyzer,
    ) -> None:
        """Emit the computation of `width` elements side by side."""
        if self.combine is None:
            with ir.vectorized(0, width) as lane:
                bind(analyzer, lane, width)
                store(lane, self.at(index(lane), [], analyzer))
            return
        total = ir.alloc_buffer((width,), str(self.stage.buffer.dtype))
        with ir.vectorized(0, width) as lane:
            ir.buffer_store(total, self.stage.init, [lane])
        with grid(self.reduced, analyzer) as steps, ir.vectorized(0, width) as lane:
            bind(analyzer, lane, width)
            step = self.at(index(lane), steps, analyzer)
            ir.buffer_store(total, self.combine(total[lane], step), [lane])
        with ir.vectorized(0, width) as lane:
            bind(analyzer, lane, width)
            store(lane, total[lane])


class _Packed:
    """A stage that writes a packed value: one row of one block is a parallel piece."""

    def __init__(
        self, general: _General, stage: Stage, value: _Value, out: tirx.Buffer, layout: Layout
    ) -> None:
        self.general, self.stage, self.value, self.out, self.layout = general, stage, value, out, layout
        self.n, self.channels, *self.spatial = shape_of(stage.buffer)
        self.blocks = layout.blocks(self.channels)
        self.zero = tirx.const(0, str(stage.buffer.dtype))

    def emit(self) -> None:
        analyzer = self.general.analyzer
        space = [self.n, self.blocks, *self.spatial[:-1]]
        width = self.spatial[-1]
        with ir.parallel(0, prod(space)) as piece:
            n, block, *row = places(bind(analyzer, piece, prod(space)), space, analyzer)
            segments = self._segments()
            if len(segments) > 1:
                for start, end in segments:
                    self._under(
                        tirx.all(block >= start, block < end), lambda: self._row(n, block, row, 0, width)
                    )
            else:
                self._interior(n, block, row)
            self._halo(n, block, row)

    def _under(
        self, condition: Expr, then: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """Emit a branch that the analyzer knows of."""
        with ir.If(condition):
            with ir.Then(), self.general.analyzer.constraint_scope(condition):
                then()
            if otherwise is not None:
                with ir.Else():
                    otherwise()

    def _interior(self, n: Expr, block: Expr, row: list[Expr]) -> None:
        """Emit the row, and by itself the part of it in which no condition (padding) is left."""
        width = self.spatial[-1]
        whole = [(0, self.blocks), *((0, size) for size in self.spatial)]
        total = self._conditions(whole)
        columns, lines = (0, width), None
        if total:
            columns = self._best(whole, len(whole) - 1, total)
            inner = [*whole[:-1], columns]
            if len(whole) > 2:
                left = self._conditions(inner)
                found = self._best(inner, len(whole) - 2, left) if left else whole[-2]
                lines = None if found == whole[-2] else found

        def emit_row() -> None:
            for start, end in ((0, columns[0]), columns, (columns[1], width)):
                self._row(n, block, row, start, end)

        if lines is None:
            emit_row()
        else:
            self._under(tirx.all(row[-1] >= lines[0], row[-1] < lines[1]), emit_row, emit_row)

    def _best(self, box: list[tuple[int, int]], axis: int, total: int) -> tuple[int, int]:
        """Return the largest range of an axis in which the fewest conditions are left."""
        _start, end = box[axis]
        found = (total, 0, 0, end)
        for before in range(_BORDER + 1):
            for after in range(_BORDER + 1):
                if end - after > before:
                    smaller = [*box[:axis], (before, end - after), *box[axis + 1 :]]
                    found = min(found, (self._conditions(smaller), before + after, before, end - after))
        return found[2:]

    def _segments(self) -> list[tuple[int, int]]:
        """Cut the blocks where another operand of a concatenation begins."""
        rest = [(0, size) for size in self.spatial]
        total = self._conditions([(0, self.blocks), *rest])
        if not total or self.blocks == 1:
            return [(0, self.blocks)]
        each = [self._conditions([(block, block + 1), *rest]) for block in range(self.blocks)]
        if min(each) == total:
            return [(0, self.blocks)]
        ends = [
            block
            for block in range(1, self.blocks)
            if self._conditions([(block - 1, block + 1), *rest]) > min(each[block - 1], each[block])
        ]
        return list(zip([0, *ends], [*ends, self.blocks], strict=True))

    def _conditions(self, box: Sequence[tuple[int, int]]) -> int:
        """Count the conditions left in the value in a box of (block, *spatial)."""
        analyzer = Analyzer()

        def free(start: int, end: int) -> Any:
            if end - start == 1:
                return tirx.IntImm("int32", start)
            var = tirx.Var("i", "int32")
            return bind(analyzer, var, end - start) + start

        block, *spatial = (free(start, end) for start, end in box)
        lane = bind(analyzer, tirx.Var("lane", "int32"), self.layout.lanes)
        index = [tirx.IntImm("int32", 0), block * self.layout.lanes + lane, *spatial]
        steps = [free(0, extent) for extent in self.value.reduced]
        return calls(self.value.at(index, steps, analyzer), "if_then_else")

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
        lanes, analyzer = self.layout.lanes, self.general.analyzer
        with grid([end - start], analyzer) as (step,):
            column = analyzer.simplify(step + start)

            def index(lane: Var) -> list[Expr]:
                return [n, block * lanes + lane, *row, column]

            def store(lane: Var, value: Expr) -> None:
                if padded:
                    inside = analyzer.simplify(block * lanes + lane) < self.channels
                    value = tirx.if_then_else(inside, value, self.zero)
                moved = [
                    place + before for place, before in zip([*row, column], self.layout.before, strict=True)
                ]
                ir.buffer_store(self.out, value, [n, block, *moved, lane])

            self.value.emit(lanes, index, store, analyzer)

    def _halo(self, n: Expr, block: Expr, row: list[Expr]) -> None:
        zero_halo(self.out, self.layout, self.spatial, n, block, row, self.general.analyzer)


def _plain(general: _General, stage: Stage, value: _Value, out: tirx.Buffer) -> None:
    """Emit a stage that writes a plain value: vectors run along its last axis."""
    shape, analyzer = shape_of(stage.buffer), general.analyzer
    axis = max((place for place, extent in enumerate(shape) if extent > 1), default=len(shape) - 1)
    if axis < 0:
        if value.combine is not None:
            raise UnreadableError("it reduces to a single number")
        axis = 0
    extent = shape[axis] if shape else 1
    outer, behind = shape[:axis], len(shape) - axis - 1
    width = general.lanes if extent >= general.lanes else 1

    def emit(start: int, many: int, size: int) -> None:
        space = list(outer)
        if prod(outer) < _JOBS:
            space.append(many)
        with ir.parallel(0, prod(space)) as piece:
            at = places(bind(analyzer, piece, prod(space)), space, analyzer)
            with grid([many] if len(space) == len(outer) else [], analyzer) as steps:
                where = [*at, *steps]
                before, vector = where[:-1], where[-1]

                def index(lane: Var) -> list[Expr]:
                    if not shape:
                        return []
                    last = analyzer.simplify(vector * size + start + lane)
                    return [*before, last, *([tirx.IntImm("int32", 0)] * behind)]

                value.emit(size, index, lambda lane, each: ir.buffer_store(out, each, index(lane)), analyzer)

    full, rest = divmod(extent, width)
    emit(0, full, width)
    if rest:
        emit(full * width, 1, rest)

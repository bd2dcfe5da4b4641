"""Emits the value of one stage in vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.emitter import FunctionStorage
from toolchain.backends.packed.recognise.expressions import bind, bindings, inlined, linear, substitute
from toolchain.backends.packed.recognise.read import Expr, Stage, Var, loads, shape_of

Combine = Callable[[Expr, Expr], Expr]

_COMBINE: dict[type, Combine] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Mul: lambda a, b: a * b,
    tirx.Max: tirx.max,
    tirx.Min: tirx.min,
}
_UNROLLED = 9  # most steps of a reduction (for example a pooling window) that are unrolled
_WAYS = 4  # sums of a column that is computed alone, so that additions do not wait for each other


class StageValue:
    """The value of one stage, perhaps with a later stage that is computed from its result.

    Parameters
    ----------
    last
        Element-wise stage that is stored in place of the reduction's result; None to store the result.
    """

    def __init__(self, memory: FunctionStorage, stage: Stage, last: Stage | None = None) -> None:
        self.memory, self.stage, self.last = memory, stage, last
        self.reduced = [extent for extent, reduce in zip(stage.extents, stage.reduce, strict=True) if reduce]

    @property
    def reduces(self) -> bool:
        """Whether the stage is a reduction."""
        return self.stage.init is not None

    @property
    def target(self) -> Stage:
        """The stage whose value is stored."""
        return self.stage if self.last is None else self.last

    def step(self) -> tuple[Combine, Expr] | None:
        """Return how a reduction combines two numbers, and the value that each step adds.

        None if it is no reduction of a single value, or combines in another way.
        """
        value = self.stage.value
        combine = _COMBINE.get(type(value))
        if not self.reduces or combine is None or len(self.stage.parts) > 1:
            return None
        if not isinstance(value, tirx.Add | tirx.Mul | tirx.Max | tirx.Min):
            return None
        if not isinstance(value.a, TensorLoad) or not value.a.source.same_as(self.stage.buffer):
            return None
        return combine, value.b

    def at(
        self,
        value: Expr,
        index: Sequence[Expr],
        reduced: Sequence[Expr],
        analyzer: Analyzer,
        totals: Sequence[Expr] = (),
    ) -> Expr:
        """Return `value`, an expression of the stage, for the element at a logical index.

        Parameters
        ----------
        reduced
            Position on the reduced axes.
        totals
            Result of the reduction so far, for each part.
        """
        axes = [axis for axis, reduce in zip(self.stage.axes, self.stage.reduce, strict=True) if reduce]
        bound = [*bindings(self.stage, index), *zip(axes, reduced, strict=True)]

        def stored(buffer: tirx.Buffer, place: list[Expr]) -> Expr | None:
            part = self.stage.part(buffer)
            if part is not None and totals:
                return totals[part]
            return self.memory.load(buffer, place, analyzer)

        return analyzer.simplify(substitute(value, bound, inlined(self.memory.read, stored, analyzer)))

    def result(self, totals: list[Expr], index: Sequence[Expr], analyzer: Analyzer) -> list[Expr]:
        """Return the stored values at a logical index, given the reduction's result."""
        if self.last is None:
            return totals

        def stored(buffer: tirx.Buffer, place: list[Expr]) -> Expr | None:
            if self.stage.part(buffer) is not None:
                return totals[0]
            return self.memory.load(buffer, place, analyzer)

        value_at = inlined(self.memory.read, stored, analyzer)
        bound = bindings(self.last, index)
        return [analyzer.simplify(substitute(self.last.value, bound, value_at))]

    def strided(self, value: Expr, index: Sequence[Expr], reduced: Sequence[Expr], lane: Var) -> int:
        """Count the loads that, along `lane`, do not read neighbours of one row."""
        count = 0
        for load in loads(self.at(value, index, reduced, self.memory.analyzer)):
            forms = [linear(each, [lane]) for each in load.indices]
            steps = [None if form is None else form[0].get(0, 0) for form in forms]
            count += bool(steps) and (any(steps[:-1]) or steps[-1] not in (0, 1))
        return count

    def values(self, index: Sequence[Expr], reduced: Sequence[Expr], analyzer: Analyzer) -> list[Expr]:
        """Return all values computed for a logical index, with one for the reduction so far.

        TVM refuses to divide by a zero that it knows.
        """
        totals: list[Expr] = [tirx.const(1, str(part.buffer.dtype)) for part in self.stage.parts]
        values = [self.at(part.value, index, reduced, analyzer, totals) for part in self.stage.parts]
        return values + self.result(totals, index, analyzer)

    def within(self, index: Sequence[Expr], analyzer: Analyzer) -> bool:
        """Return whether every load for a logical index, even an invalid one, is within its buffer."""
        reduced = [bind(analyzer, tirx.Var("step", "int32"), extent) for extent in self.reduced]
        return all(
            analyzer.can_prove(tirx.all(place >= 0, place < extent))
            for value in self.values(index, reduced, analyzer)
            for load in loads(value)
            for place, extent in zip(load.indices, shape_of(load.source), strict=True)
        )

    def emit(
        self,
        width: int,
        columns: int,
        index: Callable[[Expr, Expr], list[Expr]],
        store: Callable[[Expr, Expr, list[Expr]], None],
        analyzer: Analyzer,
        inside: Callable[[Expr], Expr] | None = None,
    ) -> None:
        """Emit the computation of `columns` columns of `width` elements each.

        Parameters
        ----------
        index
            Returns the logical index from column and lane.
        store
            Stores the values of the parts, given column and lane.
        inside
            Returns whether the element of a lane exists; None if all do. Others read nothing.
        """
        nest, parts = self.memory.nest, self.stage.parts
        if not self.reduces:
            with nest.unroll(columns) as column, nest.vector(width) as lane:
                store(
                    column, lane, [self.at(part.value, index(column, lane), [], analyzer) for part in parts]
                )
            return
        if columns == 1 and self._worth_ways():
            self._by_ways(width, index, store, analyzer, inside)
            return
        totals = [nest.local((columns * width,), str(part.buffer.dtype)) for part in parts]
        for total, part in zip(totals, parts, strict=True):
            nest.fill(total, columns * width, part.begin)
        # results of one step, if the parts read each other
        fresh = totals
        if len(parts) > 1:
            fresh = [nest.local((width,), str(part.buffer.dtype)) for part in parts]
        unrolled = columns > 1 and prod(self.reduced) <= _UNROLLED
        with nest.grid(self.reduced, unrolled=unrolled) as steps, nest.unroll(columns) as column:
            for new, part in zip(fresh, parts, strict=True):
                with nest.vector(width) as lane:
                    place = column * width + lane
                    so_far = [total[place] for total in totals]
                    value = self.at(part.value, index(column, lane), steps, analyzer, so_far)
                    if inside is not None:
                        value = tirx.if_then_else(inside(lane), value, part.begin)
                    ir.buffer_store(new, value, [place if fresh is totals else lane])
            if fresh is not totals:
                for total, new in zip(totals, fresh, strict=True):
                    with nest.vector(width) as lane:
                        ir.buffer_store(total, new[lane], [column * width + lane])
        with nest.unroll(columns) as column, nest.vector(width) as lane:
            sums = [total[column * width + lane] for total in totals]
            store(column, lane, self.result(sums, index(column, lane), analyzer))

    def _worth_ways(self) -> bool:
        """Return whether several sums of a column are faster than one."""
        long = bool(self.reduced) and self.reduced[-1] >= 2 * _WAYS
        return long and self.step() is not None and not self.memory.nest.machine.pieces.fine

    def _by_ways(
        self,
        width: int,
        index: Callable[[Expr, Expr], list[Expr]],
        store: Callable[[Expr, Expr, list[Expr]], None],
        analyzer: Analyzer,
        inside: Callable[[Expr], Expr] | None,
    ) -> None:
        """Emit a reduction of one column by several sums, of which each adds every n-th step."""
        step = self.step()
        if step is None:
            raise ValueError(f"{self.stage.name} combines in a way of its own")
        (combine, number), nest, part = step, self.memory.nest, self.stage.parts[0]
        total = nest.local((_WAYS * width,), str(part.buffer.dtype))
        nest.fill(total, _WAYS * width, part.begin)
        first: Expr = tirx.IntImm("int32", 0)
        *before, last = self.reduced
        for start, ways in ((0, _WAYS), (last - last % _WAYS, 1)):
            turns = (last - start) // ways
            if turns < 1:
                continue
            with (
                nest.grid([*before, turns]) as (*steps, turn),
                nest.unroll(ways) as way,
                nest.vector(width) as lane,
            ):
                at = [*steps, analyzer.simplify(turn * ways + way + start)]
                place = way * width + lane
                value = combine(total[place], self.at(number, index(first, lane), at, analyzer))
                if inside is not None:
                    value = tirx.if_then_else(inside(lane), value, part.begin)
                ir.buffer_store(total, value, [place])
        with nest.vector(width) as lane:
            sums = [total[way * width + lane] for way in range(_WAYS)]
            half = [combine(sums[way], sums[way + 1]) for way in range(0, _WAYS, 2)]
            store(first, lane, self.result([combine(*half)], index(first, lane), analyzer))

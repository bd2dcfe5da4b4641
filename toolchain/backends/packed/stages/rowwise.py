"""Reductions along rows and the values computed from them, row by row: softmax, layer and instance norm.

In `stagewise`, every stage processes the whole value before the next one begins. If all stages are along
the same axes, a piece of work takes a row through all stages: the row stays in L1, and the buffers are one
row long. Values that are constant along a row (a root, a logarithm) are computed once per row, and a
division by one becomes a multiplication.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain import tvm_compat
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.elementary import exp_to_one
from toolchain.backends.packed.loops.emitter import CALL, SMALL, FunctionStorage
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import places
from toolchain.backends.packed.recognise.expressions import calls, inlined, linear, substitute, variables_of
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, UnreadableError, Var, loads, shape_of
from toolchain.backends.packed.stages.value import Combine, StageValue

# Hoists values that are constant along a row out of its loop.


def scattered(load: TensorLoad, axis: Var) -> bool:
    """Return whether loads along an axis are neither of one element nor of neighbouring elements."""
    behind = 1
    for index, extent in reversed(list(zip(load.indices, shape_of(load.source), strict=True))):
        form = linear(index, [axis])
        step = None if form is None else form[0].get(0, 0)
        if step != 0 and (step != 1 or behind > 1):
            return True
        behind *= extent
    return False


def bound(value: Expr, free: Sequence[Var], at: Sequence[Expr], analyzer: Analyzer) -> Expr:
    """Return a value with its free variables replaced."""
    return analyzer.simplify(substitute(value, list(zip(free, at, strict=True)), tirx.BufferLoad))


def hoisted(value: Expr, free: Sequence[Var], nest: Nest) -> Expr:
    """Emit the parts of a value that do not depend on the free variables; return the value that uses them."""
    made: list[tuple[Expr, tirx.Buffer]] = []

    def same(each: Expr) -> bool:
        return not any(var.same_as(own) for var in variables_of(each) for own in free)

    def stored(each: Expr) -> Expr:
        buffer = next((own for known, own in made if tvm_ffi.structural_equal(known, each)), None)
        if buffer is None:
            buffer = nest.local((1,), str(each.ty.dtype))
            ir.buffer_store(buffer, each, [0])
            made.append((each, buffer))
        return tirx.BufferLoad(buffer, [0])

    def call(node: tvm.ir.Call, mutator: tvm_ffi.StructuralMutator) -> Expr:
        return stored(node) if same(node) else mutator.default_mutate(node)

    def quotient(node: tirx.Div, mutator: tvm_ffi.StructuralMutator) -> Expr:
        if str(node.ty) != "float32" or not same(node.b):
            return mutator.default_mutate(node)
        if same(node.a):
            return stored(node)
        if isinstance(node.b, tirx.FloatImm):
            return mutator.mutate(node.a) * tirx.const(1 / float(node.b), "float32")
        return mutator.mutate(node.a) * stored(tirx.const(1, "float32") / node.b)

    return tvm_compat.mutated(value, [(tvm.ir.Call, call), (tirx.Div, quotient)])


# Checks whether all stages of a function share their rows.

_JOBS = 8  # fewest rows that are enough work for the cores of today's boards
_HELD = 1 << 16  # most numbers of a row that are kept: they fit L2


def rows_of(read: Read, kept: Sequence[Stage], fewest: int | None = None) -> int:
    """Return how many first axes of the output all stored stages share; 0 if none, or with too few rows.

    Parameters
    ----------
    fewest
        Rows that are enough; None: as many as a CPU's cores need, if the work is worth several cores.
    """
    if len(kept) < 2 or not any(stage.init is not None for stage in kept):
        return 0
    shape = shape_of(read.output)
    for count in range(len(shape), 0, -1):
        if all(_alike(read, kept, stage, shape[:count]) for stage in kept):
            enough = prod(shape[:count]) >= (_JOBS if fewest is None else fewest)
            return count if enough or cost(kept) < SMALL else 0
    return 0


def _alike(read: Read, kept: Sequence[Stage], stage: Stage, rows: tuple[int, ...]) -> bool:
    """Return whether a stage has a row for each row of the output, and reads nothing of other rows."""
    shape, count = shape_of(stage.buffer), len(rows)
    if len(stage.parts) > 1 or shape[:count] != rows:
        return False
    if read.place(stage.buffer) is None and prod(shape[count:]) > _HELD:
        return False
    if stage.init is not None and prod(shape[count:]) > 1:
        return False
    stored = [each.buffer for each in kept]
    alike = True

    def leaf(source: tirx.Buffer, index: list[Expr]) -> Expr | None:
        nonlocal alike
        if any(source.same_as(each) for each in stored):
            own = zip(index, stage.indices, rows, strict=False)
            alike &= all(extent == 1 or one.same_as(other) for one, other, extent in own)
        elif read.place(source) is None:
            return None
        return tirx.BufferLoad(source, index)

    substitute(stage.value, [], inlined(read, leaf, Analyzer()))
    return alike


def cost(kept: Sequence[Stage]) -> int:
    """Return the approximate number of operations of the stages."""
    return sum(prod(stage.extents) * (1 + CALL * calls(stage.value)) for stage in kept)


_PIECES = 8  # parallel pieces per thread, so that a busy core delays at most an eighth of its share
_WIDE = 4  # vectors per sum, so that additions do not wait for each other
_AT_ONCE = 2  # vectors per iteration of element-wise code


class RowMemory(FunctionStorage):
    """Storage of the values of one row; values that are no parameters have buffers of one row."""

    def __init__(self, nest: Nest, read: Read, layouts: Layouts, rows: int) -> None:
        super().__init__(nest, read, layouts)
        self.rows = rows
        self._kept: list[tuple[tirx.Buffer, tirx.Buffer]] = []
        # Buffer with the largest number of each row, the value that it is the largest of, and that value's
        # axes.
        self.largest: list[tuple[tirx.Buffer, Expr, list[Var]]] = []

    def room(self, buffer: tirx.Buffer) -> tuple[tirx.Buffer, bool]:
        """Return the buffer of a value, and whether it has all rows."""
        found = self.where(buffer)
        if found is not None:
            return found[0], True
        kept = next((new for own, new in self._kept if own.same_as(buffer)), None)
        if kept is not None:
            return kept, False
        new = self.nest.local(shape_of(buffer)[self.rows :] or (1,), str(buffer.dtype))
        self._kept.append((buffer, new))
        return new, False

    def load(self, buffer: tirx.Buffer, index: list[Expr], analyzer: Analyzer) -> Expr | None:
        new = next((new for own, new in self._kept if own.same_as(buffer)), None)
        if new is None:
            return super().load(buffer, index, analyzer)
        return tirx.BufferLoad(new, index[self.rows :] or [0])


def rowwise(read: Read, kept: Sequence[Stage], rows: int, machine: Machine) -> tirx.PrimFunc:
    """Return the loops of a function of plain values whose stages share its first `rows` axes.

    Raises
    ------
    UnreadableError
        The operands along a row are not contiguous in memory.
    """

    def body(nest: Nest) -> None:
        memory = RowMemory(nest, read, [None] * len(read.params), rows)
        shape = shape_of(read.output)[:rows]
        count, small = prod(shape), cost(kept) < SMALL
        each = count if small else -(-count // (_PIECES * machine.threads))
        if machine.pieces.fine:
            each = 1
        with nest.pieces([-(-count // each)], small=small) as (piece,):
            begin = piece * each
            for stage in kept:  # allocate buffers once; rows use them one after the other
                memory.room(stage.buffer)
            fewer = None if count % each == 0 else tirx.min(each, count - begin)
            with nest.serial(each, fewer) as step:
                row = places(begin + step, shape, nest.analyzer)
                for stage in kept:
                    RowStage(memory, stage, row).emit()

    return build(machine, body)


class RowStage:
    """Generator of one stage for one row."""

    def __init__(self, memory: RowMemory, stage: Stage, row: list[Expr]) -> None:
        self.memory, self.stage, self.row = memory, stage, row
        self.out, self.whole = memory.room(stage.buffer)
        self.nest, self.analyzer, self.lanes = memory.nest, memory.analyzer, memory.lanes
        self.machine = memory.nest.machine
        self.value = StageValue(memory, stage)
        self.rest = shape_of(stage.buffer)[len(row) :]
        self.first = row if self.whole else []  # of the index in `out`

    def emit(self) -> None:
        """Emit the stage."""
        if self.value.reduces:
            self._reduction()
        elif prod(self.rest) == 1:
            value = self.value.at(self.stage.value, [*self.row, *self.zeros], [], self.analyzer)
            self._store(value, self.zeros)
        else:
            self._elements()

    def _store(self, value: Expr, place: Sequence[Expr]) -> None:
        ir.buffer_store(self.out, value, [*self.first, *place] or [0])

    def _elements(self) -> None:
        *outer, last = self.rest
        free = [tirx.Var("i", "int32") for _ in self.rest]
        value = self.value.at(self.stage.value, [*self.row, *free], [], self.analyzer)
        value = self.prepared(value, free)
        with self.nest.grid(outer) as before:
            for start, many, size in _vectors(last, [self.machine.vectors(_AT_ONCE), self.lanes], again=True):
                with self.nest.grid([many]) as (vector,), self.nest.vector(size) as lane:
                    at = [*before, self.analyzer.simplify(vector * size + start + lane)]
                    self._store(bound(value, free, at, self.analyzer), at)

    def _reduction(self) -> None:
        combine, each, free = self.step()
        each = self.prepared(each, free)
        *outer, last = self.value.reduced
        sizes = [self.machine.vectors(_WIDE), self.lanes]
        # max and min stay the same if an element is read twice.
        cut = _vectors(last, sizes, again=isinstance(self.stage.value, tirx.Max | tirx.Min))
        left = cut[0][2]
        total = self.nest.local((left,), str(self.out.dtype))
        with self.nest.vector(left) as lane:
            ir.buffer_store(total, self.stage.parts[0].begin, [lane])
        for start, many, size in [*cut, (last, 0, 1)]:
            while left > size:  # combine the halves
                left //= 2
                with self.nest.vector(left) as lane:
                    ir.buffer_store(total, combine(total[lane], total[lane + left]), [lane])
            if not many:
                continue
            with self.nest.grid([*outer, many]) as (*steps, vector), self.nest.vector(size) as lane:
                at = [*steps, self.analyzer.simplify(vector * size + start + lane)]
                found = bound(each, free, at, self.analyzer)
                ir.buffer_store(total, combine(total[lane], found), [lane])
        self._store(total[0], self.zeros)

    def step(self) -> tuple[Combine, Expr, list[Var]]:
        """Return how a reduction combines numbers, and the number at free places of the reduced axes."""
        step = self.value.step()
        if step is None:
            raise UnreadableError(f"block {self.stage.name} combines in a way of its own")
        combine, each = step
        free = [tirx.Var("k", "int32") for _ in self.value.reduced]
        each = self.value.at(each, [*self.row, *self.zeros], free, self.analyzer)
        if isinstance(self.stage.value, tirx.Max):
            self.memory.largest.append((self.out, each, free))
        return combine, each, free

    @property
    def zeros(self) -> list[Expr]:
        """The first place of a row."""
        return [tirx.IntImm("int32", 0) for _ in self.rest]

    def prepared(self, value: Expr, free: list[Var]) -> Expr:
        """Emit the parts of a value that are constant along the row; return the value that uses them.

        Raises
        ------
        UnreadableError
            The value does not read neighbours along the row, or has conditions.
        """
        if not along(value, free):
            raise UnreadableError(f"block {self.stage.name} does not go along its rows")
        return self.hoisted(value, free)

    def hoisted(self, value: Expr, free: list[Var]) -> Expr:
        """Emit the parts of a value that are constant along the row; return the value that uses them."""

        def power(node: tvm.ir.Call, mutator: tvm_ffi.StructuralMutator) -> Expr:
            if node.op.name == "tirx.exp" and self._not_above_zero(node.args[0], free):
                return exp_to_one(node.args[0])
            return mutator.default_mutate(node)

        return hoisted(tvm_compat.mutated(value, [(tvm.ir.Call, power)]), free, self.nest)

    def _not_above_zero(self, value: Expr, free: list[Var]) -> bool:
        """Return whether the value is a float32 number minus the largest number of its row."""
        if (
            not isinstance(value, tirx.Sub)
            or str(value.ty) != "float32"
            or not isinstance(value.b, TensorLoad)
        ):
            return False
        for buffer, each, places_of in self.memory.largest:
            if value.b.source.same_as(buffer) and len(places_of) == len(free):
                bound = list(zip(places_of, free, strict=True))
                return bool(tvm_ffi.structural_equal(substitute(each, bound, tirx.BufferLoad), value.a))
        return False


def along(value: Expr, free: Sequence[Var]) -> bool:
    """Return whether a value reads neighbours along its row, and has no conditions."""
    return not calls(value, "if_then_else") and not any(scattered(load, free[-1]) for load in loads(value))


def _vectors(extent: int, sizes: Sequence[int], *, again: bool) -> list[tuple[int, int, int]]:
    """Return vectors that cover an axis: (start, count, size).

    Parameters
    ----------
    sizes
        Vector sizes, from the widest to one register.
    again
        Whether the rest may be covered by a vector that repeats some elements.
    """
    found, start = [], 0
    for size in sizes:
        if many := (extent - start) // size:
            found.append((start, many, size))
            start += many * size
    size = sizes[-1]
    if start < extent and again and extent >= size:
        return [*found, (extent - size, 1, size)]
    while start < extent:
        size //= 2
        if start + size <= extent:
            found.append((start, 1, size))
            start += size
    return found

"""Loops for a function stage by stage, on packed and plain values: the code of the algorithm `general`.

Element-wise stages are computed inline; other stages (reductions, expensive values that are read often, the
outputs) are stored. Vectors run along the lanes of a packed value and along an axis of a plain one; the
outer axes run in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from toolchain import tvm_compat
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.emitter import FunctionStorage
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.expressions import calls, inlined, linear, substitute, variables_of
from toolchain.backends.packed.recognise.read import (
    Expr,
    Read,
    Stage,
    StoredPart,
    UnreadableError,
    Var,
    loads,
    shape_of,
)
from toolchain.backends.packed.stages.blocks import StageLoops
from toolchain.backends.packed.stages.plain import plain
from toolchain.backends.packed.stages.repeats import factor_of
from toolchain.backends.packed.stages.rowwise import rows_of, rowwise
from toolchain.backends.packed.stages.shared_rows import shared_rows
from toolchain.backends.packed.stages.value import StageValue

# Moves parts of a stage's value to stages of their own, which store them.


@dataclass
class Extraction:
    """The stages that store parts of the value of `stage`, in the order in which they were made."""

    stage: Stage
    stages: list[Stage] = field(default_factory=list)

    def load(self, value: Expr, axes: Sequence[Var], extents: Sequence[int], at: Sequence[Expr]) -> Expr:
        """Return the load of a value that a stage over `axes` stores; parts that are equal share a stage."""
        for each in self.stages:
            if _same(each.axes, axes) and tvm_ffi.structural_equal(each.value, value):
                return tirx.BufferLoad(each.buffer, list(at))
        name = f"{self.stage.name}_part{len(self.stages)}"
        buffer = tirx.decl_buffer(tuple(extents), str(value.expr_ty().dtype), name)
        part = StoredPart(buffer, value, None)
        made = Stage(name, tuple(axes), tuple(extents), (False,) * len(axes), tuple(axes), (part,))
        self.stages.append(made)
        return tirx.BufferLoad(buffer, list(at))


def extracted(read: Read, replaced: Callable[[Extraction], Expr]) -> tuple[Read, list[tirx.Buffer]]:
    """Return a function with parts of its element-wise stages extracted, and the buffers that store them.

    Parameters
    ----------
    replaced
        Returns the new value of a stage, after extracting parts of the old one.
    """
    stages: list[Stage] = []
    buffers: list[tirx.Buffer] = []
    for stage in read.stages:
        made = Extraction(stage)
        if stage.init is None and len(stage.parts) == 1:
            value = replaced(made)
        if made.stages:
            buffers += [each.buffer for each in made.stages]
            stages += [*made.stages, replace(stage, parts=(replace(stage.parts[0], value=value),))]
        else:
            stages.append(stage)
    return (replace(read, stages=tuple(stages)), buffers) if buffers else (read, [])


def _same(axes: Sequence[Var], others: Sequence[Var]) -> bool:
    return len(axes) == len(others) and all(map(Var.same_as, axes, others))


# Tables of numbers that depend on few axes only: coordinates and weights of a resize, divisors of a norm.
#
# TVM's resize computes them by floating-point arithmetic for every element of the output. Here a stage of
# its own computes them once for every place on the axis, by the same formula. A norm of packed values
# divides each element by its channel's deviation: here it multiplies by the inverse, which a table has by
# channel.

_ROUNDING = ("floor", "ceil", "round", "nearbyint", "trunc", "fmod")
_REPEATED = 8  # fewest quotients by the same number for which it is inverted
_TABLES_ARITHMETIC = (tvm.ir.Call, tirx.Cast, tirx.Add, tirx.Sub, tirx.Mul, tirx.Div)


def with_tables(read: Read, *, inverts: bool = True) -> tuple[Read, list[tirx.Buffer]]:
    """Return a function whose element-wise stages load such numbers from tables, and the tables' buffers.

    Parameters
    ----------
    inverts
        Whether divisors have tables. On a device a table takes a launch of its own, and quotients are cheap.
    """
    inverts = inverts and not any(_rounds(part.value) for stage in read.stages for part in stage.parts)
    return extracted(read, lambda made: _with_tables(made, inverts=inverts))


def _with_tables(made: Extraction, *, inverts: bool) -> Expr:
    def node(value: Any, mutator: tvm_ffi.StructuralMutator) -> Expr:
        axis = _axis(value, made.stage)
        if axis is not None:
            return made.load(value, [axis], [made.stage.extent(axis)], [axis])
        kept: Expr = mutator.default_mutate(value)
        return kept

    def quotient(value: tirx.Div, mutator: tvm_ffi.StructuralMutator) -> Expr:
        axes = _divisor_axes(value, made.stage) if inverts else None
        if axes is None:
            return node(value, mutator)
        extents = [made.stage.extent(axis) for axis in axes]
        inverse = made.load(tirx.const(1, "float32") / value.b, axes, extents, axes)
        return mutator.mutate(value.a) * inverse

    kinds = [(kind, node) for kind in _TABLES_ARITHMETIC if kind is not tirx.Div]
    return tvm_compat.mutated(made.stage.value, [*kinds, (tirx.Div, quotient)])


def _rounds(value: Expr) -> bool:
    """Return whether a value rounds or compares floats: a product may lie beside a whole quotient."""
    found = calls(value, *_ROUNDING) > 0

    def cast(node: tirx.Cast) -> None:
        nonlocal found
        found |= str(node.value.expr_ty().dtype).startswith("float") and not str(node.ty).startswith("float")

    def compare(node: Any) -> None:
        nonlocal found
        found |= str(node.a.expr_ty().dtype).startswith("float")

    kinds = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
    tvm_compat.walked(value, [(tirx.Cast, cast), *((kind, compare) for kind in kinds)])
    return found


def _divisor_axes(value: tirx.Div, stage: Stage) -> list[Var] | None:
    """Return the axes on which a divisor depends; None if it is not worth inverting it first."""
    if str(value.ty) != "float32" or not loads(value.b) or calls(stage.value, "if_then_else"):
        return None
    uses = variables_of(value.b)
    axes = [axis for axis in stage.axes if any(axis.same_as(var) for var in uses)]
    count = prod(stage.extent(axis) for axis in axes)
    return axes if axes and count * _REPEATED <= prod(stage.extents) else None


def _axis(value: Any, stage: Stage) -> Var | None:
    """Return the only axis on which a value depends; None if it is not worth a table.

    Sums and bounds of integers stay in the stage. They are cheap, and bounds prove that loads are within
    their buffer.
    """
    number = str(value.expr_ty().dtype).startswith("float") or isinstance(value, tirx.Cast)
    if not number or not calls(value) or loads(value):
        return None
    found = variables_of(value)
    axes = [axis for axis in stage.axes if any(axis.same_as(var) for var in found)]
    if len(axes) != 1 or not all(var.same_as(axes[0]) for var in found):
        return None
    return axes[0] if prod(stage.extents) > stage.extent(axes[0]) else None


# Rows of the input that a resize interpolates along once, for all rows of a plain output that read them.
#
# Vectors run along the columns of a plain value. A resize reads the neighbours of a column from scattered
# places, which takes a load for each lane. If what it reads depends on the row by one index only, a stage
# of its own computes this for every row of the input. The resize then loads vectors of such rows.

_ROWS_ARITHMETIC = (TensorLoad, tirx.Add, tirx.Sub, tirx.Mul)


def with_input_rows(read: Read, *, repeats: bool = False) -> tuple[Read, list[tirx.Buffer]]:
    """Return a function that reads scattered numbers once for each input row, and the rows' buffers.

    Parameters
    ----------
    repeats
        Whether numbers that are only repeated along a row need no rows: they lie side by side.
    """
    values = [part.value for stage in read.stages for part in stage.parts]
    simple = not any(calls(value, "if_then_else") or _tabled(value) for value in values)
    return extracted(read, lambda made: _with_input_rows(made, repeats=repeats and simple))


def _with_input_rows(made: Extraction, *, repeats: bool) -> Expr:
    stage = made.stage
    if len(stage.axes) < 2 or len(stage.indices) != len(stage.axes):
        return stage.value
    if not all(index.same_as(axis) for index, axis in zip(stage.indices, stage.axes, strict=True)):
        return stage.value
    *outer, height, width = stage.axes
    *before, _rows, columns = stage.extents
    ends = [load.indices[-1] for load in loads(stage.value) if _of_rows(load)]
    if repeats and any(factor_of(end, width, columns) for end in ends):
        return stage.value
    row = tirx.Var("row", "int32")

    def node(value: Any, mutator: tvm_ffi.StructuralMutator) -> Expr:
        at = _input_row(value, stage)
        by_row = None if at is None else _at_row(value, at, row)
        if at is not None and by_row is not None and not _uses(by_row, height):
            extents = [*before, _height(value), columns]
            return made.load(by_row, [*outer, row, width], extents, [*outer, at, width])
        kept: Expr = mutator.default_mutate(value)
        return kept

    def guarded(value: Any, mutator: tvm_ffi.StructuralMutator) -> Expr:
        """Keep the loads of a condition's values: they may be valid only where the condition holds."""
        condition = isinstance(value, tirx.Select) or value.op.name.endswith("if_then_else")
        kept: Expr = value if condition else mutator.default_mutate(value)
        return kept

    kinds = [*((kind, node) for kind in _ROWS_ARITHMETIC), (tvm.ir.Call, guarded), (tirx.Select, guarded)]
    return tvm_compat.mutated(stage.value, kinds)


def _tabled(value: Expr) -> bool:
    """Return whether a value reads at a place that a table has."""
    return any(loads(index) for load in loads(value) for index in load.indices)


def _input_row(value: Any, stage: Stage) -> Expr | None:
    """Return the index of the row that a value reads; None if a stage for each input row would not pay.

    It pays if columns are scattered, and if the output has twice as many rows as the input, or more: each is
    read several times then.
    """
    *_outer, height, width = stage.axes
    read = loads(value)
    if not any(_of_rows(load) and linear(load.indices[-1], [width]) is None for load in read):
        return None
    if not all(len(load.indices) == 1 or len(load.indices) == len(stage.axes) for load in read):
        return None
    at = next(load.indices[-2] for load in read if _of_rows(load))
    alone = _uses(at, height) and not any(_uses(at, axis) for axis in stage.axes if not axis.same_as(height))
    repeated = 2 * _height(value) <= stage.extent(height) and linear(at, [height]) is None
    return at if alone and repeated else None


def _of_rows(load: TensorLoad) -> bool:
    """Return whether a load reads a row of an image; tables have one axis."""
    return len(load.indices) > 1


def _height(value: Any) -> int:
    """Return the number of rows of the first image that a value reads."""
    return next(shape_of(load.source)[-2] for load in loads(value) if _of_rows(load))


def _at_row(value: Any, at: Expr, row: Var) -> Expr | None:
    """Return a value with `row` in place of the row that it reads; None if it reads images of two heights."""
    if any(shape_of(load.source)[-2] != _height(value) for load in loads(value) if _of_rows(load)):
        return None

    def load(node: TensorLoad, mutator: tvm_ffi.StructuralMutator) -> Expr:
        if not _of_rows(node) or not tvm_ffi.structural_equal(node.indices[-2], at):
            return mutator.default_mutate(node)
        indices = [mutator.mutate(index) for index in node.indices]
        return tirx.BufferLoad(node.source, [*indices[:-2], row, indices[-1]])

    by_row: Expr = tvm_compat.mutated(value, [(TensorLoad, load)])
    return by_row


def _uses(value: Expr, axis: Var) -> bool:
    return any(axis.same_as(var) for var in variables_of(value))


def stagewise(read: Read, layouts: Layouts, machine: Machine) -> tirx.PrimFunc:
    """Return the loops of a function, stage by stage.

    Raises
    ------
    UnreadableError
        A stage of the function is of an unknown kind.
    """

    kept = [stage for stage in read.stages if _kept(read, stage)]
    last = _lasts(read, kept)
    made = _by_rows(read, kept, last, layouts, machine)
    if made is not None:
        return made
    rows: list[tirx.Buffer] = []
    if machine.gpu is None:
        read, tables = with_tables(read, inverts=not machine.pieces.fine)
        if layouts[-1] is None:
            read, rows = with_input_rows(read, repeats=not any(layouts))
        stored = [*tables, *rows, *(stage.buffer for stage in kept)]
        kept = [stage for stage in read.stages if any(stage.buffer.same_as(each) for each in stored)]
        last = _lasts(read, kept)

    def body(nest: Nest) -> None:
        memory = FunctionStorage(nest, read, layouts)
        for stage in kept:
            if stage.buffer in last:
                continue
            first = next((each for each in kept if last.get(each.buffer) is stage), None)
            value = StageValue(memory, stage) if first is None else StageValue(memory, first, stage)
            for part in stage.parts:
                if read.place(part.buffer) is None:
                    memory.allocate(part.buffer, packs=not any(part.buffer.same_as(own) for own in rows))
            outs, layout = memory.targets(stage)
            if layout is None:
                plain(value, outs)
            else:
                StageLoops(value, outs, layout).emit()

    return build(machine, body)


def _by_rows(
    read: Read, kept: list[Stage], last: dict[tirx.Buffer, Stage], layouts: Layouts, machine: Machine
) -> tirx.PrimFunc | None:
    """Return the loops that take row after row through all stages; None if stages share no rows."""
    if any(layouts):
        return None
    with suppress(UnreadableError):
        if machine.gpu is None:
            rows = rows_of(read, kept)
            return rowwise(read, kept, rows, machine) if rows else None
        rows = rows_of(read, kept, 1)
        # `plain` shares a single reduction out by itself, whichever its axes.
        return shared_rows(read, kept, rows, machine) if rows and len(kept) - len(last) > 1 else None
    return None


def _lasts(read: Read, kept: list[Stage]) -> dict[tirx.Buffer, Stage]:
    """Return the reductions that only one later stage reads, element by element, with that stage."""
    found: dict[tirx.Buffer, Stage] = {}
    for stage in kept:
        if stage.init is None or len(stage.parts) > 1 or read.place(stage.buffer) is not None:
            continue
        readers = [(each, _indices(read, kept, each, stage.buffer)) for each in kept if each is not stage]
        readers = [(each, indices) for each, indices in readers if indices]
        if len(readers) == 1:
            reader, indices = readers[0]
            same = all(
                len(index) == len(reader.indices) and all(map(_equal, index, reader.indices))
                for index in indices
            )
            alike = shape_of(reader.buffer) == shape_of(stage.buffer) and len(reader.parts) == 1
            if same and alike and reader.init is None and not any(each is reader for each in found.values()):
                found[stage.buffer] = reader
    return found


def _indices(read: Read, kept: list[Stage], stage: Stage, buffer: tirx.Buffer) -> list[list[Expr]]:
    """Return the indices at which a kept stage reads a buffer, through inlined stages too."""
    found: list[list[Expr]] = []
    stored = [part.buffer for each in kept for part in each.parts]

    def leaf(source: tirx.Buffer, index: list[Expr]) -> Expr | None:
        if source.same_as(buffer):
            found.append(index)
        known = read.place(source) is not None or any(source.same_as(each) for each in stored)
        return tirx.BufferLoad(source, index) if known else None

    for part in stage.parts:
        substitute(part.value, [], inlined(read, leaf, Analyzer()))
    return found


def _equal(one: Expr, other: Expr) -> bool:
    return one.same_as(other) or (
        isinstance(one, tirx.IntImm) and isinstance(other, tirx.IntImm) and int(one) == int(other)
    )


def _kept(read: Read, stage: Stage) -> bool:
    """Return whether a stage's values are stored, because computing them repeatedly would cost more."""
    if stage.init is not None or any(read.place(part.buffer) is not None for part in stage.parts):
        return True
    readers = read.readers(stage.buffer)
    often = len(readers) > 1 or any(reader.init is not None for reader in readers)
    return often and calls(stage.value) > 0

"""Rows of the input that a resize interpolates along once, for all rows of a plain output that read them.

Vectors run along the columns of a plain value. A resize reads the neighbours of a column from scattered
places, which takes a load for each lane. If what it reads depends on the row by one index only, a stage of
its own computes this for every row of the input. The resize then loads vectors of such rows.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad

from toolchain import tvm_compat
from toolchain.backends.packed.recognise.expressions import calls, linear, variables_of
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, Var, loads, shape_of
from toolchain.backends.packed.stages.extraction import Extraction, extracted
from toolchain.backends.packed.stages.repeats import factor_of

_ARITHMETIC = (TensorLoad, tirx.Add, tirx.Sub, tirx.Mul)


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

    kinds = [*((kind, node) for kind in _ARITHMETIC), (tvm.ir.Call, guarded), (tirx.Select, guarded)]
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

"""Converts indices to 32 bits: Relax functions use 64 bits, which halves the lanes of index vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import Expr, TensorLoad

from toolchain import tvm_compat

_SUMS = (
    tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max,
)  # fmt: skip
_COMPARED = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)


def narrowed(value: Expr, axes: Mapping[tirx.Var, tirx.Var]) -> Expr:
    """Return a value with 32-bit indices; the value keeps its own type.

    Parameters
    ----------
    axes
        32-bit variables by axis of the block.
    """

    def load(node: TensorLoad, _mutator: object) -> Expr:
        return tirx.BufferLoad(node.source, [narrow_index(index, axes) for index in node.indices])

    def variable(var: tirx.Var, _mutator: object) -> Expr:
        new = axes.get(var)
        return var if new is None else new if str(var.ty) == "int32" else tirx.Cast(str(var.ty), new)

    def compared(node: Any, mutator: tvm_ffi.StructuralMutator) -> Expr:
        # Padding compares indices: the analyzer can decide this only in 32 bits.
        change = mutator.mutate if _data(node.a) or _data(node.b) else lambda each: narrow_index(each, axes)
        made: Expr = type(node)(change(node.a), change(node.b))
        return made

    return tvm_compat.mutated(
        value, [(TensorLoad, load), (tirx.Var, variable), *((kind, compared) for kind in _COMPARED)]
    )


def narrow_index(index: Expr, axes: Mapping[tirx.Var, tirx.Var]) -> Expr:
    """Return an index of any type in 32 bits."""
    if isinstance(index, tirx.IntImm):
        return tirx.IntImm("int32", int(index))
    if isinstance(index, tirx.Var):
        return axes.get(index, index)
    if isinstance(index, _SUMS):
        return type(index)(narrow_index(index.a, axes), narrow_index(index.b, axes))
    if isinstance(index, tirx.Select):
        return tirx.Select(
            narrowed(index.condition, axes),
            narrow_index(index.true_value, axes),
            narrow_index(index.false_value, axes),
        )
    if isinstance(index, tvm.ir.Call) and index.op.name.endswith("if_then_else"):
        condition, *values = index.args
        return tirx.if_then_else(narrowed(condition, axes), *(narrow_index(each, axes) for each in values))
    if isinstance(index, tirx.Cast) and str(index.value.ty) in ("int32", "int64"):
        return narrow_index(index.value, axes)
    value = narrowed(index, axes)
    return value if str(value.ty) == "int32" else tirx.Cast("int32", value)


def _data(value: Expr) -> bool:
    """Return whether a value loads or calls something, so that it is not an index."""
    if str(value.ty) != "int64":
        return True
    found: list[object] = []
    tvm_compat.walked(value, [(TensorLoad, found.append), (tvm.ir.Call, found.append)])
    return bool(found)

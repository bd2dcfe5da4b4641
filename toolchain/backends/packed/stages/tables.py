"""Tables of numbers that depend on few axes only: coordinates and weights of a resize, divisors of a norm.

TVM's resize computes them by floating-point arithmetic for every element of the output. Here a stage of its
own computes them once for every place on the axis, by the same formula. A norm of packed values divides each
element by its channel's deviation: here it multiplies by the inverse, which a table has by channel.
"""

from __future__ import annotations

from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from toolchain import tvm_compat
from toolchain.backends.packed.recognise.expressions import calls, variables_of
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, Var, loads
from toolchain.backends.packed.stages.extraction import Extraction, extracted

_ROUNDING = ("floor", "ceil", "round", "nearbyint", "trunc", "fmod")
_REPEATED = 8  # fewest quotients by the same number for which it is inverted
_ARITHMETIC = (tvm.ir.Call, tirx.Cast, tirx.Add, tirx.Sub, tirx.Mul, tirx.Div)


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

    kinds = [(kind, node) for kind in _ARITHMETIC if kind is not tirx.Div]
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

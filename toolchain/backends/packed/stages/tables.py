"""Tables of numbers that depend on one axis only, such as the coordinates and weights of a resize.

TVM's resize computes them by floating-point arithmetic for every element of the output. Here a stage of its
own computes them once for every place on the axis, by the same formula.
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

_ARITHMETIC = (tvm.ir.Call, tirx.Cast, tirx.Add, tirx.Sub, tirx.Mul, tirx.Div)


def with_tables(read: Read) -> tuple[Read, list[tirx.Buffer]]:
    """Return a function whose element-wise stages load such numbers from tables, and the tables' buffers."""
    return extracted(read, _with_tables)


def _with_tables(made: Extraction) -> Expr:
    def node(value: Any, mutator: tvm_ffi.StructuralMutator) -> Expr:
        axis = _axis(value, made.stage)
        if axis is not None:
            return made.load(value, [axis], [made.stage.extent(axis)], [axis])
        kept: Expr = mutator.default_mutate(value)
        return kept

    return tvm_compat.mutated(made.stage.value, [(kind, node) for kind in _ARITHMETIC])


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

"""Multiplies by 1 / c where a network divides by a constant c: hard swish by 6, GELU by the root of 2.

A product costs a vector unit one instruction like any other, a quotient keeps it busy for longer: on an Intel
Xeon, MobileNet-v3 takes 0.97 of the time so. They differ in the last place, as sums in another order do. That
does no harm unless a result is rounded to a whole number or compared: 49 * (1 / 49) is less than 1. So a
network that does either with float32 numbers keeps its divisions, quantised ones among them.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.ir.expr import GenericConst

from toolchain.arrays import Array
from toolchain.lowering.graph.rebuilt import Rebuilt, operands_of, operator_of
from toolchain.models.entries import entries

_FULL = "float32"
_LEAST, _MOST = 2.0**-126, 2.0**126  # normal numbers whose inverse is normal, too
_ROUNDING = frozenset(
    "relax." + each
    for each in (
        "floor", "ceil", "round", "trunc", "floor_divide", "floor_mod", "mod", "sign", "equal", "not_equal",
        "less", "less_equal", "greater", "greater_equal",
    )
)  # fmt: skip


def with_products(module: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return a module whose quotients of float32 numbers and constants are products."""
    for entry in entries(module):
        made = _Multiplying(module, entry)
        found = [made.inverse(value) is not None for value in made.old.values()]
        if any(found) and not any(_rounds(value) for value in made.old.values()):
            module = made.build()
    return module


class _Multiplying(Rebuilt):
    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        """Emit a product for a quotient."""
        inverse = self.inverse(value)
        if inverse is None:
            super().bind(var, value)
            return
        self.values[var] = self.builder.emit(
            relax.op.multiply(self.moved(value.args[0]), relax.const(inverse, _FULL))
        )

    def inverse(self, value: relax.Expr) -> Array | None:
        """Return the number to multiply by instead; None for what is no such quotient."""
        operands = operands_of(value, "divide")
        if operands is None or not isinstance(operands[1], GenericConst):
            return None
        divisor = operands[1].value.numpy()
        size = np.abs(divisor)
        if divisor.dtype != _FULL or not np.all((size >= _LEAST) & (size <= _MOST)):
            return None
        return np.asarray(1 / divisor, _FULL)


def _rounds(value: relax.Expr) -> bool:
    name = operator_of(value)
    if name == "relax.astype":
        return any(kind in str(value.attrs.dtype) for kind in ("int", "bool"))
    return name in _ROUNDING and any(str(getattr(each.ty, "dtype", "")) == _FULL for each in value.args)

"""Keeps unsigned 8-bit integers as signed ones, 128 lower, for CPUs that multiply signed bytes alone.

Rounding with a zero point that is 128 lower gives such a number, and whoever reads it adds 128 or takes
another zero point; so nothing is converted in between.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.ir.expr import GenericConst

from toolchain.lowering.graph.rebuilt import Rebuilt, number_of, operator_of

FULL, BYTE, SIGNED = "float32", "uint8", "int8"
OFFSET = 128
_MOVING = frozenset(
    "relax." + name
    for name in (
        "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d", "reshape", "flatten", "squeeze", "expand_dims",
        "permute_dims", "strided_slice",
    )
)  # fmt: skip
"""Operators that pick one of their numbers, or a largest one."""


def with_signed_values(module: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return a module in which rounded values are signed."""
    return _Signing(module).build()


class _Signing(Rebuilt):
    """The network with signed values.

    Attributes
    ----------
    signed
        Variable of the old network with unsigned bytes -> the signed ones.
    floats
        Variable of the old network with unsigned bytes as floats -> the signed ones as floats.
    """

    def __init__(self, module: tvm.ir.IRModule) -> None:
        super().__init__(module)
        self.signed: dict[relax.Var, relax.Expr] = {}
        self.floats: dict[relax.Var, relax.Expr] = {}

    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        """Emit the signed form of unsigned bytes, and readers of it with other constants."""
        name = operator_of(value)
        first = value.args[0] if isinstance(value, relax.Call) and value.args else None
        if name == "relax.quantize" and str(var.ty.dtype) == BYTE and isinstance(value.args[2], GenericConst):
            zero, attrs = _lower(value.args[2]), value.attrs
            x, scale = map(self.moved, value.args[:2])
            made = relax.op.quantize(x, scale, zero, int(attrs.axis), SIGNED)
            self.signed[var] = self.builder.emit(made)
        elif name in _MOVING and first in self.signed:
            rest = [self.moved(each) for each in value.args[1:]]
            made = relax.Call(value.op, [self.signed[first], *rest], value.attrs, value.ty_args)
            self.signed[var] = self.builder.emit(made)
        elif name == "relax.concat" and all(each in self.signed for each in _parts(first)):
            parts = [self.signed[each] for each in _parts(first)]
            self.signed[var] = self.builder.emit(relax.op.concat(parts, value.attrs.axis))
        elif name == "relax.astype" and str(var.ty.dtype) == FULL and _unsigned(first):
            self.floats[var] = self.builder.emit(relax.op.astype(self._lowered(first), FULL))
        elif name == "relax.subtract" and first in self.floats and number_of(value.args[1]) is not None:
            number = (number_of(value.args[1]) or 0.0) - OFFSET
            made = relax.op.subtract(self.floats[first], relax.const(number, FULL))
            self.values[var] = self.builder.emit(made)
        elif name == "relax.dequantize" and first in self.signed and isinstance(value.args[2], GenericConst):
            zero, attrs = _lower(value.args[2]), value.attrs
            scale = self.moved(value.args[1])
            made = relax.op.dequantize(self.signed[first], scale, zero, int(attrs.axis), FULL)
            self.values[var] = self.builder.emit(made)
        else:
            super().bind(var, value)

    def _lowered(self, var: relax.Var) -> relax.Expr:
        """Return unsigned bytes as signed ones; what no rounding made, such as an input, is converted."""
        if var not in self.signed:
            wide = relax.op.astype(self.moved(var), "int16")
            lower = relax.op.subtract(wide, relax.const(OFFSET, "int16"))
            self.signed[var] = self.builder.emit(relax.op.astype(lower, SIGNED))
        return self.signed[var]

    def value(self, var: relax.Var) -> relax.Expr:
        """Return the value of a variable of the old network; unsigned bytes are made on first use."""
        if var not in self.values and var in self.floats:
            lower = relax.const(float(-OFFSET), FULL)
            self.values[var] = self.builder.emit(relax.op.subtract(self.floats[var], lower))
        elif var not in self.values and var in self.signed:
            wide = relax.op.add(relax.op.astype(self.signed[var], "int16"), relax.const(OFFSET, "int16"))
            self.values[var] = self.builder.emit(relax.op.astype(wide, BYTE))
        return super().value(var)


def _lower(zero: GenericConst) -> relax.Expr:
    """Return a zero point of signed numbers for one of unsigned numbers."""
    return relax.const((zero.value.numpy().astype(np.int16) - OFFSET).astype(SIGNED), SIGNED)


def _parts(value: relax.Expr | None) -> list[relax.Expr]:
    """Return the values of a tuple; of another value, itself."""
    return list(value.fields) if isinstance(value, relax.Tuple) else [value]


def _unsigned(value: relax.Expr | None) -> bool:
    return isinstance(value, relax.Var) and str(value.ty.dtype) == BYTE

"""Keeps unsigned 8-bit integers as signed ones, 128 lower, for CPUs that multiply signed bytes alone.

Rounding with a zero point that is 128 lower gives such a number, and whoever reads it adds 128 or takes
another zero point; so nothing is converted in between.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.ir.expr import GenericConst

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
    return relax.transform.DeadCodeElimination()(_Signing(module).run())


class _Signing:
    """Builds the new network.

    Attributes
    ----------
    values
        Variable of the old network -> its value.
    signed
        Variable of the old network with unsigned bytes -> the signed ones.
    floats
        Variable of the old network with unsigned bytes as floats -> the signed ones as floats.
    """

    def __init__(self, module: tvm.ir.IRModule) -> None:
        self.module = module
        rest = {var: func for var, func in module.functions.items() if var.name_hint != "main"}
        self.builder = relax.BlockBuilder(tvm.IRModule(rest, attrs=module.attrs))
        self.values: dict[relax.Var, relax.Expr] = {}
        self.signed: dict[relax.Var, relax.Expr] = {}
        self.floats: dict[relax.Var, relax.Expr] = {}

    def run(self) -> tvm.ir.IRModule:
        main = self.module["main"]
        self.values = {param: param for param in main.params}
        with self.builder.function("main", list(main.params), dict(main.attrs or {})):
            with self.builder.dataflow():
                for block in main.body.blocks:
                    for binding in block.bindings:
                        self._binding(binding.var, binding.value)
                result = self.builder.emit_output(self._moved(main.body.body))
            self.builder.emit_func_output(result)
        return self.builder.finalize()

    def _binding(self, var: relax.Var, value: relax.Expr) -> None:
        name = str(getattr(value.op, "name", "")) if isinstance(value, relax.Call) else ""
        first = value.args[0] if isinstance(value, relax.Call) and value.args else None
        if name == "relax.quantize" and str(var.ty.dtype) == BYTE and isinstance(value.args[2], GenericConst):
            zero, attrs = _lower(value.args[2]), value.attrs
            x, scale = map(self._moved, value.args[:2])
            made = relax.op.quantize(x, scale, zero, int(attrs.axis), SIGNED)
            self.signed[var] = self.builder.emit(made)
        elif name in _MOVING and first in self.signed:
            rest = [self._moved(each) for each in value.args[1:]]
            made = relax.Call(value.op, [self.signed[first], *rest], value.attrs, value.ty_args)
            self.signed[var] = self.builder.emit(made)
        elif name == "relax.astype" and first in self.signed and str(var.ty.dtype) == FULL:
            self.floats[var] = self.builder.emit(relax.op.astype(self.signed[first], FULL))
        elif name == "relax.subtract" and first in self.floats and _is_number(value.args[1]):
            number = float(value.args[1].value.numpy().reshape(())) - OFFSET
            made = relax.op.subtract(self.floats[first], relax.const(number, FULL))
            self.values[var] = self.builder.emit(made)
        elif name == "relax.dequantize" and first in self.signed and isinstance(value.args[2], GenericConst):
            zero, attrs = _lower(value.args[2]), value.attrs
            scale = self._moved(value.args[1])
            made = relax.op.dequantize(self.signed[first], scale, zero, int(attrs.axis), FULL)
            self.values[var] = self.builder.emit(made)
        else:
            self.values[var] = self.builder.emit(self._moved(value))

    def _moved(self, value: relax.Expr) -> relax.Expr:
        """Return an expression over the new network's values."""
        if isinstance(value, relax.Var):
            return self._value(value)
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._moved(each) for each in value.fields])
        if isinstance(value, relax.TupleGetItem):
            return relax.TupleGetItem(self._moved(value.tuple_value), value.index)
        if isinstance(value, relax.Call):
            arguments = [self._moved(each) for each in value.args]
            return relax.Call(value.op, arguments, value.attrs, value.ty_args)
        return value

    def _value(self, var: relax.Var) -> relax.Expr:
        """Return the value of a variable of the old network; unsigned bytes are made on first use."""
        if var not in self.values and var in self.floats:
            lower = relax.const(float(-OFFSET), FULL)
            self.values[var] = self.builder.emit(relax.op.subtract(self.floats[var], lower))
        elif var not in self.values and var in self.signed:
            wide = relax.op.add(relax.op.astype(self.signed[var], "int16"), relax.const(OFFSET, "int16"))
            self.values[var] = self.builder.emit(relax.op.astype(wide, BYTE))
        return self.values.get(var, var)


def _lower(zero: GenericConst) -> relax.Expr:
    """Return a zero point of signed numbers for one of unsigned numbers."""
    return relax.const((zero.value.numpy().astype(np.int16) - OFFSET).astype(SIGNED), SIGNED)


def _is_number(value: relax.Expr) -> bool:
    return isinstance(value, GenericConst) and value.value.numpy().size == 1

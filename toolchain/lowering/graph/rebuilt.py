"""Builds a network anew, binding by binding, with other values in place of some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.ir.expr import GenericConst

from toolchain.arrays import Array
from toolchain.models.multi_shape import MAIN, entries


class Rebuilt:
    """A network that is built anew; a subclass decides what some bindings become.

    Parameters
    ----------
    entry
        Name of the module's function that is built anew; the others stay.

    Attributes
    ----------
    old
        Value of each variable of the old network.
    values
        Variable of the old network -> its value in the new one.
    """

    def __init__(self, module: tvm.ir.IRModule, entry: str = MAIN) -> None:
        self.entry, self.main = entry, module[entry]
        self.bindings = [binding for block in self.main.body.blocks for binding in block.bindings]
        self.old: Mapping[relax.Var, relax.Expr] = {each.var: each.value for each in self.bindings}
        rest = {var: func for var, func in module.functions.items() if var.name_hint != entry}
        self.builder = relax.BlockBuilder(tvm.IRModule(rest, attrs=module.attrs))
        self.values: dict[relax.Var, relax.Expr] = {param: param for param in self.main.params}

    def build(self) -> tvm.ir.IRModule:
        """Return the new network, without what nothing reads any more."""
        with self.builder.function(self.entry, list(self.main.params), dict(self.main.attrs or {})):
            with self.builder.dataflow():
                for binding in self.bindings:
                    self.bind(binding.var, binding.value)
                result = self.builder.emit_output(self.moved(self.main.body.body))
            self.builder.emit_func_output(result)
        return relax.transform.DeadCodeElimination()(self.builder.finalize())

    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        """Emit what a variable of the old network becomes: by default, the same."""
        self.values[var] = self.builder.emit(self.moved(value))

    def value(self, var: relax.Var) -> relax.Expr:
        """Return the new network's value of a variable of the old one."""
        return self.values.get(var, var)

    def moved(self, value: relax.Expr) -> relax.Expr:
        """Return an expression of the old network over the new network's values."""
        if isinstance(value, relax.Var):
            return self.value(value)
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self.moved(each) for each in value.fields])
        if isinstance(value, relax.TupleGetItem):
            return relax.TupleGetItem(self.moved(value.tuple_value), value.index)
        if isinstance(value, relax.Call):
            arguments = [self.moved(each) for each in value.args]
            return relax.Call(value.op, arguments, value.attrs, value.ty_args)
        return value


def operands_of(value: relax.Expr | None, operator: str) -> list[relax.Expr] | None:
    """Return the operands of a call of one of Relax's operators; None for another value."""
    if operator_of(value) != f"relax.{operator}" or not isinstance(value, relax.Call):
        return None
    return list(value.args)


def operator_of(value: relax.Expr | None) -> str:
    """Return the name of the operator that a value calls; empty if it calls none."""
    return str(getattr(value.op, "name", "")) if isinstance(value, relax.Call) else ""


def number_of(value: relax.Expr) -> float | None:
    """Return a constant of one number; None for another value."""
    if not isinstance(value, GenericConst):
        return None
    array = value.value.numpy()
    return float(array.reshape(())) if array.size == 1 else None


# Multiplies by 1 / c where a network divides by a constant c: hard swish by 6, GELU by the root of 2.
#
# A product costs a vector unit one instruction like any other, a quotient keeps it busy for longer: on an
# Intel Xeon, MobileNet-v3 takes 0.97 of the time so. They differ in the last place, as sums in another
# order do. That does no harm unless a result is rounded to a whole number or compared: 49 * (1 / 49) is
# less than 1. So a network that does either with float32 numbers keeps its divisions, quantised ones among
# them.

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


# Computes a function of one quantised value by a table of 256 bytes.
#
# Between a quantised value and the next one that depends on it alone, a network has Sigmoid, HardSwish,
# Gelu or the product of such a function with the value itself (SiLU), in float32 and with a rounding for
# each operator. A byte has 256 values: the results for all of them are computed here, by the same
# operations in float32, and the network looks them up.

BYTES = ("int8", "uint8")
_NUMBERS = (tirx.IntImm, tirx.FloatImm)
_LOOKUP = 3
"""Instructions for a number: one lane of the index, the load, one lane of the result."""
_DIVISION = 10
"""Instructions for which a processor has the time of a division of vectors, about."""


def with_tables_of_bytes(module: tvm.ir.IRModule, lanes: int) -> tvm.ir.IRModule:
    """Return a module that looks up functions of one byte if that takes fewer instructions.

    Parameters
    ----------
    lanes
        Numbers that the machine computes with an instruction otherwise.
    """
    made = _Tables(module, lanes)
    changed = made.build()
    return changed if made.found else module


def _once(function: Callable[[Array], Any]) -> Callable[[Array], Array]:
    """Return a function of float32 numbers that rounds its result alone."""
    return lambda x: np.asarray(function(x.astype(np.float64))).astype(_FULL)


def _quantised(x: Array, scale: Array, zero: Array, dtype: str) -> Array:
    """Return the bytes of QuantizeLinear."""
    ends = np.iinfo(dtype)
    steps = np.rint(x / scale) + zero.astype(_FULL)
    return np.asarray(np.clip(steps, ends.min, ends.max)).astype(dtype)


_OPERATORS: dict[str, tuple[int, Callable[..., Array]]] = {
    "abs": (1, np.abs),
    "add": (1, np.add),
    "clip": (2, np.clip),
    "divide": (_DIVISION, np.divide),
    "erf": (30, _once(np.vectorize(erf))),
    "exp": (20, _once(np.exp)),
    "maximum": (1, np.maximum),
    "minimum": (1, np.minimum),
    "multiply": (1, np.multiply),
    "negative": (1, np.negative),
    "nn.relu": (1, lambda x: np.maximum(x, np.float32(0))),
    "round": (1, np.rint),
    "sigmoid": (30, _once(lambda x: 1 / (1 + np.exp(-x)))),
    "subtract": (1, np.subtract),
    "tanh": (30, _once(np.tanh)),
}
"""Operator -> instructions for a vector of numbers, about; its definition in float32."""
_KNOWN = {f"relax.{name}": cost for name, (cost, _function) in _OPERATORS.items()} | {
    "relax.astype": 1,
    "relax.dequantize": 2,
    "relax.quantize": 6,
}


class _Tables(Rebuilt):
    """The network with tables.

    Attributes
    ----------
    sources
        The byte that a value is computed of, number by number, by the value's variable; a byte that is not
        computed of one other is its own.
    found
        Number of tables.
    """

    def __init__(self, module: tvm.ir.IRModule, lanes: int) -> None:
        super().__init__(module)
        self.lanes, self.found = lanes, 0
        self.sources: dict[relax.Var, relax.Var] = {each: each for each in self.main.params if _is_byte(each)}

    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        """Emit a lookup for a byte that is computed of another one, where that pays; all else stays."""
        source = self._source(var, value)
        if source is None:
            if _is_byte(var):
                self.sources[var] = var
            super().bind(var, value)
            return
        self.sources[var] = source
        if not _is_byte(var) or self._cost(var, source, set()) <= _LOOKUP * self.lanes:
            super().bind(var, value)
            return
        ends = np.iinfo(str(source.ty.dtype))
        numbers = np.arange(ends.min, ends.max + 1).astype(ends.dtype)
        with np.errstate(all="ignore"):
            table = self._numbers(var, {source: numbers})
        self.found += 1
        self.values[var] = self._looked_up(self.moved(source), table, int(ends.min))

    def _source(self, var: relax.Var, value: relax.Expr) -> relax.Var | None:
        """Return the one byte tensor from which a value is computed elementwise; None: not just one."""
        if operator_of(value) not in _KNOWN:
            return None
        found: set[relax.Var | None] = set()
        for operand in value.args:
            if isinstance(operand, relax.Var):
                found.add(self.sources.get(operand) if _shape(operand) == _shape(var) else None)
            elif not isinstance(operand, _NUMBERS) and number_of(operand) is None:
                return None
        return found.pop() if len(found) == 1 else None

    def _cost(self, var: relax.Var, source: relax.Var, seen: set[relax.Var]) -> int:
        """Return the instructions for a vector of a value, given a vector of its source."""
        if var.same_as(source) or var in seen:
            return 0
        seen.add(var)
        value = self.old[var]
        operands = [each for each in value.args if isinstance(each, relax.Var)]
        own = _KNOWN[operator_of(value)]
        if operator_of(value) == "relax.quantize" and number_of(value.args[1]) != 1:
            own += _DIVISION
        return own + sum(self._cost(each, source, seen) for each in operands)

    def _numbers(self, value: relax.Expr, known: dict[relax.Var, Array]) -> Array:
        """Return the numbers of a value for those of its source, which `known` has."""
        if isinstance(value, _NUMBERS):
            return np.asarray(value.value, _FULL)
        if isinstance(value, GenericConst):
            constant: Array = value.value.numpy().reshape(())
            return constant
        if value not in known:
            call = self.old[value]
            operands = [self._numbers(each, known) for each in call.args]
            known[value] = _computed(operator_of(call), operands, str(value.ty.dtype))
        return known[value]

    def _looked_up(self, source: relax.Expr, table: Array, least: int) -> relax.Expr:
        """Emit the lookup of bytes, the smallest of which is `least`."""

        def looked_up(x: te.Tensor, numbers: te.Tensor) -> te.Tensor:
            def at(*place: tirx.Var) -> Any:
                number = x(*place).astype("int32")
                return numbers(number - least if least else number)

            return te.compute(x.shape, at, name="looked_up")

        return self.builder.emit_te(looked_up, source, relax.const(table), primfunc_name_hint="table")


def _computed(operator: str, operands: list[Array], dtype: str) -> Array:
    """Return what an operator computes in float32, or as bytes."""
    if operator == "relax.astype":
        return operands[0].astype(dtype)
    if operator == "relax.dequantize":
        x, scale, zero = operands
        return (x.astype(np.int32) - zero.astype(np.int32)).astype(_FULL) * scale
    if operator == "relax.quantize":
        steps, scale, zero = operands
        return _quantised(steps, scale, zero, dtype)
    return np.asarray(_OPERATORS[operator.removeprefix("relax.")][1](*operands)).astype(dtype, copy=False)


def _is_byte(var: relax.Var) -> bool:
    return isinstance(var.ty, relax.TensorType) and str(var.ty.dtype) in BYTES


def _shape(var: relax.Var) -> list[int]:
    return list(map(int, var.ty.shape))

"""Builds a network anew, binding by binding, with other values in place of some."""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax
from tvm.ir.expr import GenericConst

from toolchain.models.entries import MAIN


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

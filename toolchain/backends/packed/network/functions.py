"""The functions of a fused network, each read once, and the variables of their calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction, parts
from toolchain.backends.packed.recognise.read import Read, UnreadableError, read
from toolchain.backends.packed.stages.stagewise import stagewise


@dataclass(frozen=True)
class SplitFunction:
    """A function of the network, and the parts into which it was split, each with its contraction."""

    whole: Read
    parts: Sequence[tuple[Read, Contraction | None]]


class Functions:
    """The functions of a network that the generators can compute, by name; read on first use."""

    def __init__(self, fused: tvm.IRModule, machine: Machine) -> None:
        self.fused, self.machine = fused, machine
        self._known: dict[str, SplitFunction | None] = {}

    def __getitem__(self, name: str) -> SplitFunction | None:
        """Return a function; None if the generators cannot compute it, then it keeps its default schedule."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def try_general(self, function: Read) -> bool:
        """Generate a function on unpacked tensors with the algorithm `general`; return whether that works."""
        if function.by_element:  # certain without trying
            return True
        try:
            stagewise(function, [None] * len(function.params), self.machine)
        except UnreadableError:
            return False
        return True

    def _read(self, name: str) -> SplitFunction | None:
        try:
            whole = read(self.fused[name])
        except UnreadableError:
            return None
        for found in (parts(whole, self.machine.stored), [(whole, None)]):
            if all(contraction is not None or self.try_general(part) for part, contraction in found):
                return SplitFunction(whole, found)
        return None


def called(value: relax.Expr) -> str | None:
    """Return the name of the network's function that computes a value; None if no function does."""
    if isinstance(value, relax.Call) and value.op == tvm.ir.Op.get("relax.call_tir"):
        return str(value.args[0].name_hint)
    return None


def variables(value: relax.Expr) -> list[relax.Var]:
    """Return the variables in an expression, one entry for every occurrence."""
    if isinstance(value, relax.Var):
        return [value]
    if isinstance(value, relax.Tuple):
        return [var for each in value.fields for var in variables(each)]
    if isinstance(value, relax.TupleGetItem):
        return variables(value.tuple_value)
    if isinstance(value, relax.Call):
        return [var for each in value.args for var in variables(each)]
    return []

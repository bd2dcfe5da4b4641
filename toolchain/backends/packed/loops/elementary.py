"""Replaces calls of elementary functions by arithmetic: the C library computes one number at a time.

float16 numbers are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from toolchain import tvm_compat
from toolchain.backends.packed.loops.arithmetic import DIVIDING, SILU, TO_ONE, WRITTEN
from toolchain.backends.packed.recognise.read import Expr

WRITTEN_OUT = frozenset(name.rsplit(".", 1)[-1] for name in WRITTEN) | {"sinh", "cosh"}
"""Names of the functions that become long code."""

_KINDS = ("float16", "float32")

LONG = 64
"""An argument of more nodes than this is long: a float that became an int32 and a float again has 120."""


def exp_to_one(x: Expr) -> Expr:
    """Return e^x of a float32 number that is at most 0; results below 2^-126 become 0.

    `in_arithmetic` replaces the call by arithmetic.
    """
    return tirx.call_pure_extern("float32", TO_ONE, x)


def in_arithmetic(func: tirx.PrimFunc, scope: str = "global", *, divides: bool = False) -> tirx.PrimFunc:
    """Return a function with elementary functions of float16 and float32 numbers replaced by arithmetic.

    Parameters
    ----------
    scope
        TVM's memory scope of intermediate values.
    divides
        Whether vectors are divided by vectors, rather than multiplied by approximated inverses.
    """
    func = tvm_compat.mutated(func, [(tvm.ir.Call, _by_others)])
    if divides:
        func = tvm_compat.mutated(func, [(tirx.Mul, _silu)])
    writer = _Writer(scope, DIVIDING if divides else WRITTEN)
    return tvm_compat.mutated(
        func, [(tirx.For, writer.loop), (tirx.BufferStore, writer.store), (tvm.ir.Call, writer.call)]
    )


def _by_others(node: tvm.ir.Call, mutator: tvm_ffi.StructuralMutator) -> Expr:
    """Express sinh and cosh by exp and tanh: TVM cannot vectorise them, and sums would cancel near 0."""
    made = mutator.default_mutate(node)
    name = getattr(node.op, "name", "").rsplit(".", 1)[-1]
    if name not in ("sinh", "cosh"):
        return made
    x = made.args[0]
    half = tirx.const(0.5, str(x.expr_ty().dtype))
    root = tirx.exp(tirx.abs(x) * half)  # e^|x| would overflow before e^|x| / 2 does
    even = half * root * root + half / (root * root)
    return tirx.tanh(x) * even if name == "sinh" else even


def _silu(node: tirx.Mul, mutator: tvm_ffi.StructuralMutator) -> Expr:
    """Return a product as a call of SiLU if it is x times its sigmoid: x then is a quotient's numerator."""
    made = mutator.default_mutate(node)
    if str(made.ty) not in _KINDS:
        return made
    for x, gate in ((made.a, made.b), (made.b, made.a)):
        if not isinstance(gate, tvm.ir.Call) or getattr(gate.op, "name", "") != "tirx.sigmoid":
            continue
        if tvm_ffi.structural_equal(gate.args[0], x):
            return tirx.call_pure_extern(str(made.ty), SILU, x)
    return made


class _Writer:
    """Replaces the elementary functions of one PrimFunc.

    TVM's code generator simplifies a named value after it has substituted the names in it: this takes seconds
    for a function of a function, and hours for three; minutes for one of a long expression. Therefore such an
    argument is stored and loaded again; LLVM keeps it in a register.
    """

    def __init__(self, scope: str, written: Mapping[str, Callable[..., Expr | None]]) -> None:
        self.scope, self.written = scope, written
        self.lanes: tuple[Expr, int] = (tirx.const(0, "int32"), 1)  # lane and width of the enclosing vectors
        self.buffers: list[tirx.Stmt] = []  # allocations before the loop; lowering must not shrink them
        self.before: list[tirx.Stmt] | None = None  # statements before the store; None: not allowed
        self.depth = 0  # number of enclosing elementary functions

    def loop(self, node: tirx.For, mutator: tvm_ffi.StructuralMutator) -> tirx.Stmt:
        if node.kind != tirx.ForKind.VECTORIZED or int(node.extent) == 1:
            return mutator.default_mutate(node)
        outer = self.lanes, self.buffers
        self.lanes, self.buffers = (node.loop_var, int(node.extent)), []
        made = _sequence(self.buffers, mutator.default_mutate(node))
        self.lanes, self.buffers = outer
        return made

    def store(self, node: tirx.BufferStore, mutator: tvm_ffi.StructuralMutator) -> tirx.Stmt:
        self.before = []
        made = _sequence(self.before, mutator.default_mutate(node))
        self.before = None
        if self.lanes[1] > 1 or not self.buffers:
            return made
        made, self.buffers = _sequence(self.buffers, made), []
        return made

    def call(self, node: tvm.ir.Call, mutator: tvm_ffi.StructuralMutator) -> Expr:
        name = getattr(node.op, "name", "")
        own = name == "tirx.call_pure_extern"
        if own:
            name = node.args[0].value
        kind = str(node.ty)
        if name not in self.written or kind not in _KINDS:
            outer = self.before
            if name.endswith("if_then_else"):
                self.before = None  # it may be computed only if the condition holds
            made = mutator.default_mutate(node)
            self.before = outer
            return made
        self.depth += 1
        node = mutator.default_mutate(node)
        self.depth -= 1
        if self.depth and self.before is None:
            return node.args[1] * tirx.sigmoid(node.args[1]) if name == SILU else node
        value = self.written[name](*(_cast("float32", self._short(each)) for each in node.args[own:]))
        if value is None:
            return node
        value = _cast(kind, value)
        return self._stored(value) if self.depth else value

    def _short(self, value: Expr) -> Expr:
        """Return an argument; a long one is stored, if it may be computed before the statement."""
        nodes: list[Any] = []
        tvm_compat.walked(value, [(tvm.ir.Expr, nodes.append)])
        return self._stored(value) if len(nodes) > LONG else value

    def _stored(self, value: Expr) -> Expr:
        """Return a value that is stored before the statement and loaded again, if that is allowed."""
        if self.before is None:
            return value
        lane, count = self.lanes
        buffer = tirx.decl_buffer((count,), str(value.ty), "inner", scope=self.scope)
        self.buffers.append(tirx.AllocBuffer(buffer))
        self.before.append(tirx.BufferStore(buffer, value, [lane]))
        return tirx.BufferLoad(buffer, [lane])


def _sequence(first: list[tirx.Stmt], last: tirx.Stmt) -> tirx.Stmt:
    return tirx.SeqStmt([*first, last]) if first else last


def _cast(kind: str, value: Expr) -> Expr:
    if str(value.ty) == kind:
        return value
    if isinstance(value, tirx.FloatImm):
        return tirx.const(value.value, kind)
    return tirx.Cast(kind, value)

"""Builds a function from emitted loops."""

from __future__ import annotations

from collections.abc import Callable

import tvm
import tvm_ffi
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from toolchain import tvm_compat
from toolchain.backends.packed.loops.elementary import in_arithmetic
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import BYTES
from toolchain.backends.packed.recognise.read import Expr
from toolchain.lowering.schedules.vectors import EXPLICIT

# Rounds to 8-bit integers by an addition, which every vector unit has.
#
# To a float32 below 2^22 in size, 1.5 * 2^23 is added: the sum has no bits for fractions, so that the
# processor rounds them away, halves to even; its last bits are the integer in two's complement. (ARMv7's
# vector unit has no instruction that rounds, and on others rounding, converting and narrowing take two
# instructions more.)

_WITHOUT_FRACTIONS = 1.5 * 2**23
_LARGEST = 2**21
"""Largest bound of a clipped number, well below 2^22."""


def by_additions(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a function whose clipped and rounded float32 numbers become 8-bit integers by an addition."""
    return tvm_compat.mutated(func, [(tirx.Cast, _rounded)])


def _rounded(node: tirx.Cast, mutator: tvm_ffi.StructuralMutator) -> Expr:
    made = mutator.default_mutate(node)
    clipped = _clipped(made.value) if str(made.ty) in BYTES else None
    if clipped is None:
        return made
    rounded, low, high = clipped
    steps, zero = _apart(rounded)
    value = _before_rounding(steps)
    if value is None or str(value.ty) != "float32":
        return made
    bounds = (low - zero, high - zero)
    if any(abs(bound) > _LARGEST or bound != int(bound) for bound in (*bounds, zero)):
        return made
    floats = [tirx.const(bound, "float32") for bound in bounds]
    within = tirx.Max(tirx.Min(value, floats[1]), floats[0])
    bits = tirx.reinterpret("int32", tirx.Add(within, tirx.const(_WITHOUT_FRACTIONS, "float32")))
    moved = bits if not zero else tirx.Add(bits, tirx.const(int(zero), "int32"))
    return tirx.Cast(str(made.ty), moved)


def _clipped(value: Expr) -> tuple[Expr, float, float] | None:
    """Return what is clipped to two constant bounds, and the bounds; None for another value."""
    if not isinstance(value, tirx.Max) or not isinstance(value.a, tirx.Min):
        return None
    low, high = value.b, value.a.b
    if not isinstance(low, tirx.FloatImm) or not isinstance(high, tirx.FloatImm):
        return None
    return value.a.a, float(low.value), float(high.value)


def _apart(value: Expr) -> tuple[Expr, float]:
    """Return a value without the constant that is added to it, and the constant."""
    if isinstance(value, tirx.Add) and isinstance(value.b, tirx.FloatImm):
        return value.a, float(value.b.value)
    return value, 0.0


def _before_rounding(value: Expr) -> Expr | None:
    """Return what is rounded to an integer; None if the value is not rounded."""
    if not isinstance(value, tvm.ir.Call) or getattr(value.op, "name", "") != "tirx.round":
        return None
    rounded: Expr = value.args[0]
    return rounded


def build(machine: Machine, body: Callable[[Nest], None]) -> tirx.PrimFunc:
    """Return the function whose arguments and loops `body` emits; it is already scheduled."""
    with IRBuilder() as builder, ir.prim_func():
        ir.func_name("main")
        ir.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True, EXPLICIT: True})
        body(Nest(machine))
    func = builder.get() if machine.pieces.fine else by_additions(builder.get())
    return in_arithmetic(func, machine.pieces.scope, divides=machine.divides)

"""Builds a function from emitted loops."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.elementary import in_arithmetic
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.rounding import by_additions
from toolchain.backends.packed.machine import Machine
from toolchain.lowering.schedules.vectors import EXPLICIT


def build(machine: Machine, body: Callable[[Nest], None]) -> tirx.PrimFunc:
    """Return the function whose arguments and loops `body` emits; it is already scheduled."""
    with IRBuilder() as builder, ir.prim_func():
        ir.func_name("main")
        ir.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True, EXPLICIT: True})
        body(Nest(machine))
    func = builder.get() if machine.pieces.fine else by_additions(builder.get())
    return in_arithmetic(func, machine.pieces.scope, divides=machine.divides)

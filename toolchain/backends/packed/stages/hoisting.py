"""Hoists values that are constant along a row out of its loop."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain import tvm_compat
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.expressions import linear, substitute, variables_of
from toolchain.backends.packed.recognise.read import Expr, Var, shape_of


def scattered(load: TensorLoad, axis: Var) -> bool:
    """Return whether loads along an axis are neither of one element nor of neighbouring elements."""
    behind = 1
    for index, extent in reversed(list(zip(load.indices, shape_of(load.source), strict=True))):
        form = linear(index, [axis])
        step = None if form is None else form[0].get(0, 0)
        if step != 0 and (step != 1 or behind > 1):
            return True
        behind *= extent
    return False


def bound(value: Expr, free: Sequence[Var], at: Sequence[Expr], analyzer: Analyzer) -> Expr:
    """Return a value with its free variables replaced."""
    return analyzer.simplify(substitute(value, list(zip(free, at, strict=True)), tirx.BufferLoad))


def hoisted(value: Expr, free: Sequence[Var], nest: Nest) -> Expr:
    """Emit the parts of a value that do not depend on the free variables; return the value that uses them."""
    made: list[tuple[Expr, tirx.Buffer]] = []

    def same(each: Expr) -> bool:
        return not any(var.same_as(own) for var in variables_of(each) for own in free)

    def stored(each: Expr) -> Expr:
        buffer = next((own for known, own in made if tvm_ffi.structural_equal(known, each)), None)
        if buffer is None:
            buffer = nest.local((1,), str(each.ty.dtype))
            ir.buffer_store(buffer, each, [0])
            made.append((each, buffer))
        return tirx.BufferLoad(buffer, [0])

    def call(node: tvm.ir.Call, mutator: tvm_ffi.StructuralMutator) -> Expr:
        return stored(node) if same(node) else mutator.default_mutate(node)

    def quotient(node: tirx.Div, mutator: tvm_ffi.StructuralMutator) -> Expr:
        if str(node.ty) != "float32" or not same(node.b):
            return mutator.default_mutate(node)
        if same(node.a):
            return stored(node)
        if isinstance(node.b, tirx.FloatImm):
            return mutator.mutate(node.a) * tirx.const(1 / float(node.b), "float32")
        return mutator.mutate(node.a) * stored(tirx.const(1, "float32") / node.b)

    return tvm_compat.mutated(value, [(tvm.ir.Call, call), (tirx.Div, quotient)])

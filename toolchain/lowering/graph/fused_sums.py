"""Adds quantised values by fused multiply-adds, where a CPU has them.

A sum of two quantised values is rounded as `fma(a, ra, fma(b, rb, c))`, which a network writes with parts of
the factors whose products and sums are exact (`models/rewrites/quantised/integer_operators`): that gives the
same numbers on every processor, in ten operations in place of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from toolchain.lowering.graph.rebuilt import Rebuilt, number_of, operands_of

FUSED = "tirx.fma"
FULL = "float32"


@dataclass(frozen=True)
class _Product:
    """`value * factor + added`, of which `added` is a number or a value."""

    value: relax.Expr
    factor: np.float32
    added: np.float32 | relax.Expr


def with_fused_sums(module: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return a module whose sums of quantised values are fused multiply-adds."""
    made = _Fusing(module)
    changed = made.build()
    return changed if made.found else module


class _Fusing(Rebuilt):
    found = 0

    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        """Emit a fused multiply-add for a value that was written in parts."""
        outer = self._sum(value)
        inner = None if outer is None or not isinstance(outer.added, relax.Var) else self._sum_of(outer.added)
        if outer is None or inner is None or not _alike(outer.value, inner.value):
            super().bind(var, value)
            return
        self.found += 1
        ra, rb, c = outer.factor, inner.factor, inner.added

        def fused(a: te.Tensor, b: te.Tensor) -> te.Tensor:
            def at(*place: tirx.Var) -> Any:
                constants = (tirx.const(float(number), FULL) for number in (rb, c))
                near = tirx.call_intrin(FULL, FUSED, b(*place), *constants)
                return tirx.call_intrin(FULL, FUSED, a(*place), tirx.const(float(ra), FULL), near)

            return te.compute(a.shape, at, name="sum")

        operands = (self.moved(each) for each in (outer.value, inner.value))
        self.values[var] = self.builder.emit_te(fused, *operands, primfunc_name_hint="add")

    def _sum(self, value: relax.Expr | None) -> _Product | None:
        """Return `a * factor + inner` of `(a * high + near) + (a * low + (inner - near))`."""
        parts = self._parts(value)
        if parts is None:
            return None
        a, factor, (near, rest) = parts
        left = self._operands(rest, "subtract")
        if left is None or not left[1].same_as(near) or not self._is_near(near, left[0]):
            return None
        return _Product(a, factor, left[0])

    def _sum_of(self, var: relax.Var) -> _Product | None:
        """Return `b * factor + number` of `(b * high + coarse) + (b * low + fine)`."""
        parts = self._parts(self.old.get(var))
        if parts is None:
            return None
        b, factor, added = parts
        coarse, fine = map(number_of, added)
        if coarse is None or fine is None:
            return None
        return _Product(b, factor, np.float32(np.float64(coarse) + np.float64(fine)))

    def _parts(
        self, value: relax.Expr | None
    ) -> tuple[relax.Expr, np.float32, tuple[relax.Expr, relax.Expr]] | None:
        """Return value, factor and what is added, of a sum of two products with parts of the factor."""
        halves = operands_of(value, "add")
        large, small = (None, None) if halves is None else (self._operands(half, "add") for half in halves)
        if large is None or small is None:
            return None
        one, other = (self._operands(half[0], "multiply") for half in (large, small))
        if one is None or other is None or not one[0].same_as(other[0]):
            return None
        high, low = number_of(one[1]), number_of(other[1])
        if high is None or low is None:
            return None
        return one[0], np.float32(np.float64(high) + np.float64(low)), (large[1], small[1])

    def _is_near(self, near: relax.Expr, inner: relax.Expr) -> bool:
        """Return whether a value is another one, rounded to a grid."""
        scaled = self._operands(near, "multiply")
        rounded = None if scaled is None else self._operands(scaled[0], "round")
        steps = None if rounded is None else self._operands(rounded[0], "multiply")
        return steps is not None and bool(steps[0].same_as(inner))

    def _operands(self, var: relax.Expr, operator: str) -> list[relax.Expr] | None:
        return operands_of(self.old.get(var), operator)


def _alike(one: relax.Expr, other: relax.Expr) -> bool:
    """Return whether two values have the same shape."""
    shapes = [list(map(int, each.ty.shape)) for each in (one, other)]
    return shapes[0] == shapes[1]

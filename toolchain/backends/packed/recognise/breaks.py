"""Finds where along an axis the conditions of an expression change, for instance at edges of padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.sym import Analyzer

from toolchain import tvm_compat
from toolchain.backends.packed.recognise.expressions import linear
from toolchain.backends.packed.recognise.read import Expr, Var

_UNBOUNDED = 1 << 31  # the analyzer's bound of a number of which it knows nothing


def breaks(values: Sequence[Expr], axis: Var, extent: int, analyzer: Analyzer) -> tuple[list[int], bool]:
    """Return the places on an axis where an integer comparison becomes certain, or stops being certain.

    Between two places each comparison is always true, always false, or depends on other variables.

    Parameters
    ----------
    analyzer
        Analyzer that knows the bounds of the other variables.

    Returns
    -------
    tuple
        The places, and whether they are complete: every comparison is linear in the axis.
    """
    found: set[int] = set()
    whole = True
    for difference, sign in _differences(values):
        form = linear(difference, [axis])
        if form is None:
            whole = False
        elif factor := form[0].get(0, 0):
            if factor * sign < 0:
                factor, rest = -factor, -form[1]
            else:
                rest = form[1]
            found.update(_changes(factor, rest, analyzer))
    return sorted(place for place in found if 0 < place < extent), whole


def _changes(factor: int, rest: Expr, analyzer: Analyzer) -> list[int]:
    """Return where `factor * i + rest < 0` changes for the least and for the largest rest."""
    bound = analyzer.const_int_bound(rest)
    ends = [int(each) for each in (bound.min_value, bound.max_value) if abs(int(each)) < _UNBOUNDED]
    return [-(end // factor) if factor > 0 else end // -factor + 1 for end in ends]


def _differences(values: Sequence[Expr]) -> list[tuple[Expr, int]]:
    """Return for every integer comparison an expression that is negative on one side and not on the other.

    Each comes with the sign that its factor of the axis should have, or 0 if either works: max changes where
    the growing operand becomes the larger one, min changes after that place.
    """
    found: list[tuple[Expr, int]] = []

    def compare(node: Any) -> None:
        if not str(node.a.ty).startswith("int"):
            return
        difference = node.a - node.b
        if isinstance(node, tirx.Min | tirx.Max):
            found.append((difference, 1 if isinstance(node, tirx.Max) else -1))
            return
        if isinstance(node, tirx.LT | tirx.GE | tirx.EQ | tirx.NE):
            found.append((difference, 0))
        if isinstance(node, tirx.LE | tirx.GT | tirx.EQ | tirx.NE):
            found.append((difference - 1, 0))

    kinds = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE, tirx.Min, tirx.Max)
    for value in values:
        tvm_compat.walked(value, [(kind, compare) for kind in kinds])
    return found

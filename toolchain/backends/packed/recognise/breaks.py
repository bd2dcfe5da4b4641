"""Where along an axis the conditions of an expression change: at the edges of padding, say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.sym import Analyzer

from toolchain import tvm_compat
from toolchain.backends.packed.recognise.expressions import linear
from toolchain.backends.packed.recognise.read import Expr, Var

_UNBOUNDED = 1 << 31  # what is known of a number that nothing is known of


def breaks(values: Sequence[Expr], axis: Var, extent: int, analyzer: Analyzer) -> tuple[list[int], bool]:
    """Return the places on an axis at which a comparison of integers becomes certain, or is so no more.

    Between two of them each comparison is true everywhere, false everywhere, or depends on other variables.

    Parameters
    ----------
    analyzer
        Knows the bounds of the other variables.

    Returns
    -------
    tuple
        The places, and whether there is nothing else: no comparison of what is not linear in the axis.
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
    """Return from where on `factor * i + rest < 0` for the least and for the largest rest, or not."""
    bound = analyzer.const_int_bound(rest)
    ends = [int(each) for each in (bound.min_value, bound.max_value) if abs(int(each)) < _UNBOUNDED]
    return [-(end // factor) if factor > 0 else end // -factor + 1 for end in ends]


def _differences(values: Sequence[Expr]) -> list[tuple[Expr, int]]:
    """Return, of every comparison of integers, what is negative where it is one way and not the other.

    And the sign that its factor of the axis should have, if that is all the same: the larger of a number
    and a growing one is the latter from where they are equal, the smaller one is so up to there.
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

"""Substitutes expressions, to express the value of a stage by stored values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer, detect_linear_equation

from toolchain import tvm_compat
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, UnreadableError, Var

# Returns the load of a buffer at indices; None if the buffer is not stored and must be computed inline.
Leaf = Callable[[tirx.Buffer, list[Expr]], "Expr | None"]


def substitute(
    value: Expr, bound: Sequence[tuple[Var, Expr]], leaf: Callable[[tirx.Buffer, list[Expr]], Expr]
) -> Expr:
    """Return `value` with variables replaced by what they are bound to and every load by `leaf`."""

    def variable(var: Var, _mutator: object) -> Expr:
        return next((expr for own, expr in bound if own.same_as(var)), var)

    def load(node: TensorLoad, mutator: tvm_ffi.StructuralMutator) -> Expr:
        return leaf(node.source, [mutator.mutate(index) for index in node.indices])

    try:
        return tvm_compat.mutated(value, [(TensorLoad, load), (tirx.Var, variable)])
    except RuntimeError as error:  # TVM turns an UnreadableError of `leaf` into this
        raise UnreadableError(str(error).strip().rsplit("\n", 1)[-1]) from error


def inlined(read: Read, leaf: Leaf, analyzer: Analyzer) -> Callable[[tirx.Buffer, list[Expr]], Expr]:
    """Return a function that reads a buffer: by `leaf` if it is stored, else by computing the element."""

    def value_at(buffer: tirx.Buffer, index: list[Expr]) -> Expr:
        index = [analyzer.simplify(each) for each in index]
        stored = leaf(buffer, index)
        if stored is not None:
            return stored
        stage = read.producer(buffer)
        if stage is None or stage.init is not None:
            raise UnreadableError(f"{buffer.name} is neither stored nor computed element by element")
        return substitute(stage.value, bindings(stage, index), value_at)

    return value_at


def epilogue(
    read: Read, y: tirx.Buffer, total: Expr, index: Sequence[Expr], leaf: Leaf, analyzer: Analyzer
) -> Expr:
    """Return the function's output at a logical index.

    Parameters
    ----------
    total
        The contraction's result there, with the type of `y`.
    leaf
        Reads the function's inputs.
    """
    if read.output.same_as(y):
        return total

    def stored(buffer: tirx.Buffer, at: list[Expr]) -> Expr | None:
        if buffer.same_as(y):
            return total
        return None if buffer.same_as(read.output) else leaf(buffer, at)

    return inlined(read, stored, analyzer)(read.output, list(index))


def bindings(stage: Stage, index: Sequence[Expr]) -> list[tuple[Var, Expr]]:
    """Return the values of the stage's axes for which it writes element `index`."""
    bound = []
    for own, wanted in zip(stage.indices, index, strict=True):
        if isinstance(own, tirx.Var):
            bound.append((own, wanted))
        elif not isinstance(own, tirx.IntImm):
            raise UnreadableError(f"block {stage.name} does not store at its axes")
    return bound


def linear(index: Expr, axes: Sequence[Var]) -> tuple[dict[int, int], Expr] | None:
    """Return (coefficient by place of an axis, the rest); None if `index` is not linear."""
    found = detect_linear_equation(index, list(axes))
    if not found:
        return None
    *coefficients, rest = found
    known = [int(each) for each in coefficients if isinstance(each, tirx.IntImm)]
    if len(known) < len(coefficients):
        return None
    return {place: value for place, value in enumerate(known) if value}, rest


def variables_of(value: Expr) -> list[Var]:
    """Return the variables of a value, once for each of their uses."""
    found: list[Var] = []
    tvm_compat.walked(value, [(tirx.Var, found.append)])
    return found


def calls(value: Expr, *names: str) -> int:
    """Count calls in an expression: of the intrinsics `names`, or of all but conditions."""
    count = 0

    def visit(call: tvm.ir.Call) -> None:
        nonlocal count
        name = getattr(call.op, "name", "").rsplit(".", 1)[-1]
        count += name in names if names else name not in ("if_then_else", "likely")

    tvm_compat.walked(value, [(tvm.ir.Call, visit)])
    return count


def bind(analyzer: Analyzer, var: Var, end: int, first: int = 0) -> Var:
    """Tell the analyzer that first <= var < end; return var."""
    analyzer.bind(var, tvm.ir.Range(first, end))
    return var


# Finds where along an axis the conditions of an expression change, for instance at edges of padding.

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

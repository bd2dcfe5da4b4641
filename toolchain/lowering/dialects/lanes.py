"""Writes stores of vectors lane by lane where TVM's generator of CUDA C++ would write them wrong.

CUDA's vectors have no operators: the generator writes arithmetic and comparisons for each lane, but `~v` and
`!v` for a vector as a whole. A condition that is not a comparison gets the type of the values between which
it selects. Truth values in memory are loaded as 16-bit numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tirx
from tvm.ir.expr import TensorLoad

from toolchain import tvm_compat

_COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_CONDITIONS = (*_COMPARISONS, tirx.And, tirx.Or)
_PAIRS = (
    *(tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max),
    *(tirx.BitwiseAnd, tirx.BitwiseOr, tirx.BitwiseXor, tirx.LShift, tirx.RShift, *_CONDITIONS),
)


def with_stores_by_lane(module: tvm.IRModule) -> tvm.IRModule:
    """Return a new module of lowered kernels, in which such stores are one store for each lane."""
    return tvm.IRModule(
        {name: _rewritten(func) for name, func in module.functions.items()}, attrs=module.attrs
    )


def _rewritten(func: Any) -> Any:
    bind: Any = tirx.Bind

    def stored(node: Any, _mutator: Any) -> Any:
        lanes, index = _lanes(node.value), node.indices[-1]
        if lanes == 1 or _is_written_right(node.value):
            return node
        # All lanes are computed before the first is stored: they may be read from the same memory.
        values = [_lane(node.value, lane, {}) for lane in range(lanes)]
        names = [tirx.Var(f"lane_{lane}", str(value.ty.dtype)) for lane, value in enumerate(values)]
        named = [bind(name, value) for name, value in zip(names, values, strict=True)]
        if node.buffer.dtype.lanes > 1:  # its elements are vectors
            whole = tirx.Shuffle(names, list(range(lanes)))
            return tirx.SeqStmt([*named, tirx.BufferStore(node.buffer, whole, node.indices)])
        places = [[*node.indices[:-1], _lane(index, lane, {})] for lane in range(lanes)]
        stores = [
            tirx.BufferStore(node.buffer, name, place) for name, place in zip(names, places, strict=True)
        ]
        return tirx.SeqStmt([*named, *stores])

    body = tvm_compat.mutated(func.body, [(tirx.BufferStore, stored)])
    made: Any = tirx.PrimFunc
    return made(func.params, body, func.ret_type, func.attrs)


def _lanes(node: Any) -> int:
    """Return the number of lanes of an expression; 1 for what is no number, as the name of a function."""
    dtype = getattr(node.ty, "dtype", None)
    return 1 if dtype is None else int(dtype.lanes)


def _is_written_right(value: Any) -> bool:
    wrong: list[Any] = []

    def negated(node: Any) -> None:
        if _lanes(node) > 1:
            wrong.append(node)

    def selected(node: Any) -> None:
        if _lanes(node.condition) > 1 and not isinstance(node.condition, _CONDITIONS):
            wrong.append(node)

    def loaded(node: Any) -> None:
        if _lanes(node) > 1 and _scalar(node) == "bool":
            wrong.append(node)

    kinds = [
        (tirx.Not, negated),
        (tirx.BitwiseNot, negated),
        (tirx.Select, selected),
        (TensorLoad, loaded),
    ]
    tvm_compat.walked(value, kinds)
    return not wrong and _scalar(value) != "bool"


def _lane(node: Any, lane: int, bound: Mapping[Any, Any]) -> Any:
    """Return one lane of an expression as a scalar expression.

    Parameters
    ----------
    bound
        The lane of each vector that a `Let` around the expression names.
    """
    if _lanes(node) == 1:
        return node

    def of(part: Any) -> Any:
        return _lane(part, lane, bound)

    kind: Any = type(node)  # of what follows, the types that TVM declares lack attributes
    if kind is tirx.Ramp:
        return node.base + node.stride * lane
    if kind is tirx.Broadcast:
        return node.value
    if kind in _PAIRS:
        return kind(of(node.a), of(node.b))
    if kind in (tirx.Not, tirx.BitwiseNot):
        return kind(of(node.a))
    if isinstance(node, tirx.Cast):
        return tirx.Cast(_scalar(node), of(node.value))
    if isinstance(node, tirx.Select):
        return tirx.Select(of(node.condition), of(node.true_value), of(node.false_value))
    if isinstance(node, TensorLoad) and _lanes(node.indices[-1]) > 1:
        return tirx.BufferLoad(node.source, [*node.indices[:-1], of(node.indices[-1])])
    if isinstance(node, tirx.Shuffle):
        return _shuffled(node, lane, bound)
    if isinstance(node, tirx.Let):
        return _let(node, lane, bound)
    if kind is tvm.ir.Call:
        return tirx.call_intrin(_scalar(node), node.op, *map(of, node.args), attrs=node.attrs)
    if isinstance(node, (tirx.Var, TensorLoad)):  # the latter of a buffer whose elements are vectors
        return bound[node] if node in bound else tirx.Shuffle([node], [lane])
    raise AssertionError(f"{type(node).__name__} of a vector")  # a kind of expression that TVM has added


def _scalar(node: Any) -> str:
    return str(node.ty.dtype).split("x")[0]


def _let(node: Any, lane: int, bound: Mapping[Any, Any]) -> Any:
    if _lanes(node.var) == 1:
        return tirx.Let(node.var, node.value, _lane(node.body, lane, bound))
    var = tirx.Var(f"{node.var.name}_{lane}", _scalar(node.var))
    value = _lane(node.value, lane, bound)
    return tirx.Let(var, value, _lane(node.body, lane, {**bound, node.var: var}))


def _shuffled(node: Any, lane: int, bound: Mapping[Any, Any]) -> Any:
    place = int(node.indices[lane])
    for vector in node.vectors:
        lanes = _lanes(vector)
        if place < lanes:
            return _lane(vector, place, bound)
        place -= lanes
    raise AssertionError("a shuffle names a lane that it does not have")

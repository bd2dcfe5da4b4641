"""Stores of vectors in kernels for CUDA: by lane where TVM writes what NVRTC refuses, or misreads."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tirx

from toolchain.lowering.dialects.lanes import with_stores_by_lane

LANES = 4


def buffer(name: str, kind: str = "float32") -> Any:
    return tirx.decl_buffer((64,), kind, name)


def ramp(begin: Any) -> Any:
    return tirx.Ramp(begin, 1, LANES)


X, Y, B, WHOLE = buffer("x"), buffer("y"), buffer("b", "bool"), buffer("whole", "int32")
V = tirx.Var("v", "int32")


def load(source: Any, begin: Any = 0) -> Any:
    return tirx.BufferLoad(source, [ramp(begin)])


def stores(target: Any, value: Any, begin: Any = 0) -> list[Any]:
    """Return the stores that are left of one of a vector."""
    made: Any = tirx.PrimFunc
    func = made([X, Y, B, WHOLE, V], tirx.BufferStore(target, value, [ramp(begin)]))
    body = with_stores_by_lane(tvm.IRModule({"main": func}))["main"].body
    parts = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    return [part for part in parts if isinstance(part, tirx.BufferStore)]


@pytest.mark.parametrize(
    ("target", "value", "begin"),
    [
        (Y, load(X), V * 4),
        (Y, load(X) + tirx.Broadcast(tirx.const(1.0, "float32"), LANES), 0),
        (Y, tirx.Select(tirx.LT(load(X), load(X, 4)), load(X), load(X, 4)), 0),
    ],
)
def test_what_is_written_right_stays_a_vector(target: Any, value: Any, begin: Any) -> None:
    (store,) = stores(target, value, begin)
    assert store.value.ty.dtype.lanes == LANES


@pytest.mark.parametrize(
    ("target", "value", "begin"),
    [
        (WHOLE, tirx.BitwiseNot(load(WHOLE)), 0),
        (B, tirx.Not(load(B)), 0),
        (Y, tirx.Select(load(B), load(X), load(X, 4)), 0),
        (Y, tirx.Select(tirx.Broadcast(tirx.LT(V, 3), LANES), load(X), load(X, 4)), 0),
        (WHOLE, tirx.Cast("int32x4", load(B)), 0),
        (B, tirx.LT(load(X), load(X, 4)), 0),
    ],
)
def test_what_is_not_is_stored_by_lane(target: Any, value: Any, begin: Any) -> None:
    found = stores(target, value, begin)
    assert len(found) == LANES
    assert all(each.value.ty.dtype.lanes == 1 for each in found)
    analyzer: Any = tvm.sym.Analyzer()
    places = [int(analyzer.simplify(each.indices[0] - found[0].indices[0])) for each in found]
    assert places == [*range(LANES)]


def test_lanes_are_read_before_the_first_is_stored() -> None:
    """Each value has a name of its own: the memory may be the same."""
    found = stores(X, tirx.Select(load(B), tirx.Shuffle([load(X, 0)], [3, 2, 1, 0]), load(X, 0)))
    assert all(isinstance(each.value, tirx.Var) for each in found)

"""Where conditions change: found by arithmetic, and by trying every place."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from toolchain.backends.packed import machines
from toolchain.backends.packed.recognise.expressions import bind, breaks, calls
from toolchain.backends.packed.recognise.read import read
from toolchain.backends.packed.stages.stagewise import stagewise

EXTENT = 20
COMPARED = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)


@given(st.sampled_from(COMPARED), st.integers(-3, 3).filter(bool), st.integers(-30, 30), st.integers(0, 4))
@settings(derandomize=True)
def test_a_comparison_changes_nowhere_else(kind: type, factor: int, offset: int, others: int) -> None:
    """Where a comparison is sure, for all values of another variable, and where it is not."""
    analyzer = Analyzer()
    i, k = (bind(analyzer, tirx.Var(name, "int32"), n) for name, n in (("i", EXTENT), ("k", others + 1)))
    condition = kind(i * factor + k, tirx.IntImm("int32", offset))
    found, whole = breaks([condition], i, EXTENT, analyzer)
    truth = np.array(
        [[_holds(kind, factor * x + y - offset) for y in range(others + 1)] for x in range(EXTENT)]
    )
    sure = np.where(truth.all(1), 1, np.where(truth.any(1), 0, -1))
    assert whole
    if kind not in (tirx.EQ, tirx.NE):  # which are cut beside the place too
        assert found == [place for place in range(1, EXTENT) if sure[place] != sure[place - 1]]
    assert {place for place in range(1, EXTENT) if sure[place] != sure[place - 1]} <= set(found)


def _holds(kind: type, difference: int) -> bool:
    signs = {
        tirx.LT: (-1,),
        tirx.LE: (-1, 0),
        tirx.GT: (1,),
        tirx.GE: (0, 1),
        tirx.EQ: (0,),
        tirx.NE: (-1, 1),
    }
    return np.sign(difference) in signs[kind]


def test_what_is_not_linear_is_said() -> None:
    analyzer = Analyzer()
    i = bind(analyzer, tirx.Var("i", "int32"), EXTENT)
    assert breaks([i // 2 < 3], i, EXTENT, analyzer) == ([], False)


@pytest.mark.parametrize("turned", [False, True])
def test_clamped_places_are_cut_where_the_image_ends(turned: bool) -> None:
    analyzer = Analyzer()
    i = bind(analyzer, tirx.Var("i", "int32"), EXTENT)
    zero, last = tirx.IntImm("int32", 0), tirx.IntImm("int32", 11)
    low = tirx.Max(zero, i - 4) if turned else tirx.Max(i - 4, zero)
    high = tirx.Min(last, i - 4) if turned else tirx.Min(i - 4, last)
    assert breaks([low, high], i, EXTENT, analyzer) == ([4, 16], True)


@pytest.mark.parametrize("pad", [1, 4, 5])
@pytest.mark.parametrize("wide", [9, 160])
def test_no_vector_of_a_pad_has_a_condition(pad: int, wide: int) -> None:
    x = te.placeholder((12, wide), name="x")

    def mirrored(i: tirx.Var) -> tvm.ir.Expr:
        after = tirx.if_then_else(i >= wide + pad, 2 * wide + pad - 2 - (i - pad), i - pad)
        return tirx.if_then_else(i < pad, pad - i, after)

    y = te.compute((12, wide + 2 * pad), lambda row, i: x[row, mirrored(i)], name="y")
    made = stagewise(read(te.create_prim_func([x, y])), [None, None], machines.AARCH64.of(2))
    stores: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(made.body, [(tirx.BufferStore, stores.append)])
    assert stores
    assert not any(calls(index, "if_then_else") for store in stores for index in _indices(store.value))


def _indices(value: tvm.ir.Expr) -> list[tvm.ir.Expr]:
    assert isinstance(value, TensorLoad)
    return list(value.indices)

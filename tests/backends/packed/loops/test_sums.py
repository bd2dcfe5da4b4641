"""Sums of products of float16."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.tile import Sums
from toolchain.backends.packed.machines import AVX2
from toolchain.backends.packed.recognise.read import Expr

pytestmark = pytest.mark.slow

LANES = 8


def summed(extents: Sequence[int], each: int, dtype: str, values: np.ndarray) -> np.ndarray:
    """Return one number per lane: the sum of `values`, (products, lanes), times one."""
    count = prod(extents) * each

    def body(nest: Nest) -> None:
        source = ir.arg("source", ir.buffer((count, LANES), dtype))
        out = ir.arg("out", ir.buffer((LANES,), "float32"))
        sums = Sums(nest, 1, 1, LANES, dtype, count)
        sums.clear()
        with sums.loops(extents, each) as steps:
            place: Expr = tirx.const(0, "int32")
            for step, extent in zip(steps, extents, strict=True):
                place = place * extent + step
            (total,) = sums.registers
            with ir.serial(0, each) as inner, ir.vectorized(0, LANES) as lane:
                ir.buffer_store(total, total[lane] + source[place * each + inner, lane], [lane])
        (total,) = sums.totals
        with ir.vectorized(0, LANES) as lane:
            ir.buffer_store(out, total[lane].astype("float32"), [lane])

    # Any CPU runs this: where it has no float16, LLVM rounds after every float32 operation.
    library = tvm.compile(
        tvm.IRModule({"main": build(AVX2, body).with_attr("global_symbol", "main")}), "llvm"
    )
    out = tvm.runtime.tensor(np.empty(LANES, "f4"))
    library["main"](tvm.runtime.tensor(values.reshape(count, LANES).astype(dtype)), out)
    return out.numpy()


@pytest.mark.parametrize(
    ("extents", "each"),
    [
        ((1, 1, 1), 8),
        ((3, 3, 16), 32),
        ((7, 3, 3), 1),
        ((16, 3, 3), 32),
        ((67,), 32),
        ((1009,), 1),
        ((4608,), 1),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_long_sums_stay_accurate(extents: tuple[int, ...], each: int, dtype: str) -> None:
    count = prod(extents) * each
    values = np.random.default_rng(0).standard_normal((count, LANES)).astype(dtype)
    exact = values.astype("f8").sum(axis=0)
    error = np.abs(summed(extents, each, dtype, values) - exact).max() / np.sqrt(count)
    assert error < {"float16": 5e-3, "float32": 1e-5}[dtype]


def test_small_products_are_not_swallowed() -> None:
    """A sum of ones in float16 ends at 2048."""
    ones = np.ones((9216, LANES), "f2")
    assert np.array_equal(summed((288,), 32, "float16", ones), np.full(LANES, 9216, "f4"))

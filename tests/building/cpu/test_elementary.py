"""exp, sigmoid, tanh and erf without the C library: as exact as float32 allows, the special cases too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from scipy import special
from tvm import te, topi

from toolchain.building.cpu.core import Core
from toolchain.building.cpu.general import general
from toolchain.building.cpu.read import read

POINTS = np.concatenate(
    [
        np.linspace(-110, 110, 20001),
        np.linspace(-5, 5, 20001),
        np.geomspace(1e-30, 1, 100),
        [0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 88.72, -87.32],
    ]
).astype("f4")
EXACT = {"exp": np.exp, "sigmoid": special.expit, "tanh": np.tanh, "erf": special.erf}


@pytest.mark.parametrize("name", EXACT)
def test_as_exact_as_float32(name: str) -> None:
    found = _computed(getattr(topi, name))
    with np.errstate(over="ignore"):
        expected = EXACT[name](POINTS.astype("f8")).astype("f4")
    normal = abs(expected) > np.finfo("f4").tiny
    np.testing.assert_allclose(found[normal], expected[normal], rtol=5e-7)
    np.testing.assert_allclose(found[~normal], expected[~normal], atol=2e-38)


def _computed(function: Callable[[te.Tensor], te.Tensor]) -> np.ndarray:
    x = te.placeholder(POINTS.shape, name="x")
    func = general(read(te.create_prim_func([x, function(x)])), [None, None], Core(8, 16, "broadcast", 1))
    assert "expf" not in func.script()
    library = tvm.compile(tvm.IRModule({"main": func}), target="llvm")
    out = tvm.runtime.tensor(np.zeros_like(POINTS))
    library["main"](tvm.runtime.tensor(POINTS), out)
    return out.numpy()

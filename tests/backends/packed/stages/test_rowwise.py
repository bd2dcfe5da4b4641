"""Softmax and norms along rows: one region of parallel work, right for any length, infinities too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
import tvm_ffi
from scipy import special
from tvm import te, tirx, topi

from tests.backends.packed.computed import MACHINES, named
from toolchain.arrays import Array
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.read import read
from toolchain.backends.packed.stages.stagewise import stagewise
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for


def norm(x: te.Tensor) -> te.Tensor:
    """Return TVM's layer norm over the last axis."""
    axis = len(x.shape) - 1
    ones = [topi.full((x.shape[axis],), "float32", value) for value in (1.5, -0.5)]
    return topi.nn.layer_norm(x, *ones, [axis], 1e-5)


def distances(x: te.Tensor) -> te.Tensor:
    """Return by what share of its root mean square every number is off its row's least."""
    least = topi.min(x, -1, keepdims=True)
    root = topi.sqrt(topi.sum(x * x, -1, keepdims=True) / float(int(x.shape[-1])))
    return topi.divide(topi.subtract(x, least), root)


def _norm(x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return 1.5 * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) - 0.5


def _distances(x: Array) -> Array:
    return (x - x.min(-1, keepdims=True)) / np.sqrt((x * x).mean(-1, keepdims=True))


WHAT: dict[str, tuple[Callable[[te.Tensor], te.Tensor], Callable[[Array], Array]]] = {
    "softmax": (topi.nn.softmax, lambda x: special.softmax(x, -1)),
    "log softmax": (topi.nn.log_softmax, lambda x: special.log_softmax(x, -1)),
    "norm": (norm, _norm),
    "distances": (distances, _distances),
}
SHAPES = ((9, 3), (8, 16), (3, 5, 37), (1, 1000), (12, 130), (2, 4, 9, 64))


def function(name: str, shape: Sequence[int], machine: Machine) -> tirx.PrimFunc:
    x = te.placeholder(tuple(shape), name="x")
    found = read(te.create_prim_func([x, WHAT[name][0](x)]))
    return stagewise(found, [None] * len(found.params), machine)


def loops(func: tirx.PrimFunc, kind: tirx.ForKind) -> int:
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(func.body, [(tirx.For, found.append)])
    return sum(loop.kind == kind for loop in found)


def allocated(func: tirx.PrimFunc) -> int:
    """Return the numbers of the largest buffer inside a function."""
    found: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(func.body, [(tirx.AllocBuffer, found.append)])
    return max(int(np.prod([int(extent) for extent in each.buffer.shape])) for each in found)


@pytest.mark.parametrize("name", ["softmax", "log softmax", "norm"])
def test_a_row_goes_through_all_stages_at_once(name: str) -> None:
    func = function(name, (12, 197, 197), MACHINES[1])
    assert loops(func, tirx.ForKind.PARALLEL) == 1
    assert allocated(func) <= 197


def test_rows_that_do_not_lie_in_memory_are_left_to_the_general_rule() -> None:
    x = te.placeholder((16, 20, 120), name="x")
    found = read(te.create_prim_func([x, topi.nn.softmax(x, 1)]))
    assert loops(stagewise(found, [None, None], MACHINES[1]), tirx.ForKind.PARALLEL) > 1


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_any_length_of_rows(machine: Machine) -> None:
    cases = [(name, shape) for name in WHAT for shape in SHAPES]
    module = tvm.IRModule(
        {
            f"f{i}": function(*case, machine).with_attr("global_symbol", f"f{i}")
            for i, case in enumerate(cases)
        }
    )
    library = tvm.compile(module, target_for(load_profile("x86_64")).target)
    random = np.random.default_rng(0)
    for i, (name, shape) in enumerate(cases):
        x = (4 * random.standard_normal(shape)).astype("f4")
        out = tvm.runtime.tensor(np.full(shape, np.nan, "f4"))
        library[f"f{i}"](tvm.runtime.tensor(x), out)
        expected = WHAT[name][1](x.astype("f8"))
        assert np.abs(out.numpy() - expected).max() < 2e-6 * max(1, np.abs(expected).max()), (name, shape)


def test_masked_numbers_count_nothing() -> None:
    library = tvm.compile(
        tvm.IRModule({"f": function("softmax", (4, 40), MACHINES[1]).with_attr("global_symbol", "f")}),
        target_for(load_profile("x86_64")).target,
    )
    x = np.linspace(-3, 3, 160, dtype="f4").reshape(4, 40)
    x[0, 7:], x[1, ::2], x[2, :] = -np.inf, -3.4e38, 1e30
    x[3, 5] = np.nan
    out = tvm.runtime.tensor(np.empty_like(x))
    library["f"](tvm.runtime.tensor(x), out)
    found = out.numpy()
    np.testing.assert_allclose(found[:3], special.softmax(x[:3].astype("f8"), -1), rtol=1e-5)
    assert not found[0, 7:].any() and not found[1, ::2].any()
    assert np.isnan(found[3]).any()

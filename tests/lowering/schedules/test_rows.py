"""Schedules without a record: the same numbers, and never an obstacle."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx, topi

from tests.lowering.scheduled import KINDS, Layer, ran
from toolchain.lowering.schedules.rows import default_schedule

pytestmark = pytest.mark.slow

layers = st.builds(
    Layer,
    kind=st.sampled_from(sorted(KINDS)),
    batch=st.sampled_from([1, 1, 3]),
    channels=st.sampled_from([2, 4, 6]),
    outputs=st.sampled_from([2, 8, 10]),
    size=st.sampled_from([3, 5, 8, 13]),
    kernel=st.sampled_from([1, 3]),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
    act=st.sampled_from(["none", "relu", "add", "residual"]),
)


def agrees(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the scheduled function after comparing what both compute."""
    scheduled = default_schedule(func)
    found, wanted = ran(scheduled, func)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    return scheduled


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_operator_is_scheduled_and_agrees(kind: str) -> None:
    assert "T.parallel(" in agrees(Layer(kind).function()).script()


@pytest.mark.slow
@settings(max_examples=40)
@given(layers)
def test_a_scheduled_function_computes_the_same(layer: Layer) -> None:
    agrees(layer.function())


@pytest.mark.parametrize(
    "layer",
    [
        Layer("matmul", size=16, outputs=8),  # one row, longer than a vector
        Layer("matmul", size=1, channels=2, outputs=1),  # one number
        Layer("conv", size=1, kernel=1, padding=0),
        Layer("mean", channels=200),
        Layer("mean_all", batch=1),  # nothing to run in parallel
        Layer("softmax", size=50),
        Layer("conv", outputs=67, size=3),  # a prime does not split
    ],
)
@pytest.mark.parametrize("act", ["none", "residual"])
def test_shapes_at_the_edges_agree(layer: Layer, act: str) -> None:
    agrees(dataclasses.replace(layer, act=act).function())


def test_the_function_that_was_given_is_left_alone() -> None:
    func = Layer("conv", act="add").function()
    before = func.script()
    default_schedule(func)
    assert func.script() == before


def test_scheduling_twice_gives_the_same() -> None:
    func = Layer("depthwise", act="relu").function()
    assert tvm_ffi.structural_equal(default_schedule(func), default_schedule(func))


def test_the_parameters_and_attributes_stay() -> None:
    func = Layer("matmul").function().with_attr("op_pattern", 4)
    scheduled = default_schedule(func)
    assert int(scheduled.attrs["op_pattern"]) == 4
    assert len(scheduled.params) == len(func.params)


def test_a_reduction_is_no_longer_one_long_chain() -> None:
    """The reduction's loops stand outside the innermost one, which is left to be vectorised."""
    func = default_schedule(Layer("conv", act="relu").function())
    assert "decompose" in func.script() or "_init" in func.script()
    assert "_update" in func.script()


def scan() -> tirx.PrimFunc:
    """Return a running sum, written with a loop that carries a value: there is no rule for it."""
    x = te.placeholder((8,), name="x")
    return te.create_prim_func([x, topi.cumsum(x, axis=0)])


def two_reductions() -> tirx.PrimFunc:
    x = te.placeholder((4, 6, 5), name="x")
    return te.create_prim_func([x, topi.subtract(topi.max(x, axis=[1, 2]), topi.sum(x, axis=[1, 2]))])


def inlined_twice() -> tirx.PrimFunc:
    """Return a reduction of a reduction with element-wise steps before, between and behind."""
    x = te.placeholder((2, 6, 5), name="x")
    inner = topi.exp(topi.sum(topi.negative(x), axis=2))
    return te.create_prim_func([x, topi.nn.relu(topi.sum(inner, axis=1))])


def argmax() -> tirx.PrimFunc:
    x = te.placeholder((4, 9), name="x")
    return te.create_prim_func([x, topi.cast(topi.argmax(x, axis=1), "float32")])


def number() -> tirx.PrimFunc:
    """Return a function whose output has no dimension at all."""
    x = te.placeholder((6, 5), name="x")
    return te.create_prim_func([x, topi.sum(x)])


def scalar_elementwise() -> tirx.PrimFunc:
    x = te.placeholder((), name="x")
    return te.create_prim_func([x, topi.exp(x)])


def unit_batch_norm() -> tirx.PrimFunc:
    x = te.placeholder((2, 5, 4), name="x")
    return te.create_prim_func([x, topi.concatenate([x, topi.nn.relu(x)], axis=1)])


@pytest.mark.parametrize(
    "make", [scan, two_reductions, inlined_twice, argmax, number, scalar_elementwise, unit_batch_norm]
)
def test_what_no_rule_was_made_for_computes_the_same(make: object) -> None:
    agrees(make())


def test_two_outputs_are_both_written() -> None:
    x = te.placeholder((4, 6), name="x")
    func = te.create_prim_func([x, topi.nn.relu(x), topi.sum(topi.nn.relu(x), axis=1)])
    values = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    main = default_schedule(func).with_attr("global_symbol", "main")
    library = tvm.compile(tvm.IRModule({"main": main}), target="llvm")
    one, two = (tvm.runtime.tensor(np.zeros(shape, np.float32)) for shape in ((4, 6), (4,)))
    library["main"](tvm.runtime.tensor(values), one, two)
    np.testing.assert_allclose(one.numpy(), np.maximum(values, 0))
    np.testing.assert_allclose(two.numpy(), np.maximum(values, 0).sum(1), rtol=1e-5)

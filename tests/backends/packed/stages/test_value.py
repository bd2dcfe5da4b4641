"""Reductions and norms of packed values: what numpy computes, by several sums and without quotients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tests.backends.packed.computed import MACHINES, named
from toolchain.arrays import Array
from toolchain.backends.packed.layout import dense_layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import AVX2, OPENCL
from toolchain.backends.packed.recognise.read import Read, read, shape_of
from toolchain.backends.packed.stages.stagewise import stagewise, with_tables
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for


@dataclass(frozen=True)
class Case:
    """A value's shape, what TVM computes of it, and numpy; an output of the same shape is packed, too."""

    shape: tuple[int, ...]
    define: Callable[[te.Tensor], te.Tensor]
    expected: Callable[[Array], Array]
    packed: bool = True

    def read(self) -> Read:
        x = te.placeholder(self.shape, "float32", name="x")
        return read(te.create_prim_func([x, self.define(x)]))

    def function(self, found: Read, machine: Machine) -> tvm.tirx.PrimFunc:
        lay = dense_layout(machine.lanes, len(self.shape)) if self.packed else None
        image = shape_of(found.output) == self.shape
        return stagewise(found, [lay, lay if image else None], machine)


def norm(x: te.Tensor) -> te.Tensor:
    """Return what an instance norm with an epsilon makes of a value, as TVM legalises it."""
    axes = list(range(2, len(x.shape)))
    middle = topi.subtract(x, topi.divide(topi.sum(x, axes, keepdims=True), 100.0))
    spread = topi.sqrt(topi.add(topi.sum(topi.multiply(middle, middle), axes, keepdims=True), 0.5))
    return topi.divide(middle, spread)


def normed(x: Array) -> Array:
    axes = tuple(range(2, x.ndim))
    middle = x - x.sum(axes, keepdims=True) / 100
    return np.asarray(middle / np.sqrt((middle**2).sum(axes, keepdims=True) + 0.5))


CASES = (
    Case((1, 20, 9, 11), lambda x: topi.sum(x, [2, 3]), lambda x: x.sum((2, 3))),
    Case((2, 33, 3, 8), lambda x: topi.sum(x, [2, 3], keepdims=True), lambda x: x.sum((2, 3), keepdims=True)),
    Case((1, 16, 37), lambda x: topi.max(x, [2]), lambda x: x.max(2)),
    Case((1, 7, 18), lambda x: topi.min(x, [2]), lambda x: x.min(2), packed=False),
    Case((2, 19, 35), lambda x: topi.sum(x, [1]), lambda x: x.sum(1), packed=False),
    Case((2, 9, 35), lambda x: topi.prod(x, [1]), lambda x: x.prod(1), packed=False),
    Case((1, 20, 9, 11), norm, normed),
    Case((2, 32, 75), norm, normed),
    Case(  # a quotient by what a condition keeps from being zero
        (1, 16, 40),
        lambda x: te.compute(
            x.shape, lambda n, c, i: te.if_then_else(c < 9, x[n, c, i] / (x[n, c, 0] + 9.0), 0.0)
        ),
        lambda x: np.where(np.arange(16)[:, None] < 9, x / (x[:, :, :1] + 9), 0),
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_reductions_and_norms_are_what_numpy_computes(machine: Machine) -> None:
    reads = [case.read() for case in CASES]
    functions = {
        f"f{i}": case.function(found, machine).with_attr("global_symbol", f"f{i}")
        for i, (case, found) in enumerate(zip(CASES, reads, strict=True))
    }
    library = tvm.compile(tvm.IRModule(functions), target_for(load_profile("x86_64")).target)
    random = np.random.default_rng(0)
    for i, (case, found) in enumerate(zip(CASES, reads, strict=True)):
        x = random.normal(size=case.shape).astype("f4")
        expected = case.expected(x.astype("f8")).astype("f4")
        lay = dense_layout(machine.lanes, x.ndim)
        image = case.packed and shape_of(found.output) == case.shape
        wanted = lay.pack(expected) if image else expected
        result = tvm.runtime.tensor(np.full(wanted.shape, np.nan, "f4"))
        library[f"f{i}"](tvm.runtime.tensor(lay.pack(x) if case.packed else x), result)
        assert np.allclose(result.numpy(), wanted, rtol=1e-4, atol=1e-5), case


def text(case: Case, machine: Machine) -> str:
    return str(case.function(case.read(), machine).script())


def test_a_sum_along_columns_has_several_parts_that_do_not_wait_for_each_other() -> None:
    assert f"T.alloc_buffer(({4 * AVX2.lanes},))" in text(CASES[0], AVX2.of(1))


def test_a_window_has_one_sum() -> None:
    window = Case((1, 16, 9, 3), lambda x: topi.sum(x, [3]), lambda x: x.sum(3))
    assert f"({4 * AVX2.lanes},)" not in text(window, AVX2.of(1))


def test_a_device_keeps_one_sum_for_each_item() -> None:
    assert f"({4 * OPENCL.lanes},)" not in text(CASES[0], OPENCL.of(1))


def test_a_norm_divides_once_for_each_channel() -> None:
    found, tables = with_tables(CASES[6].read())
    assert [shape_of(table) for table in tables] == [(1, 20)]
    last = str(found.stages[-1].value)
    assert "/" not in last and "*" in last


def test_a_device_divides() -> None:
    found = CASES[6].read()
    assert with_tables(found, inverts=False) == (found, [])


def test_quotients_in_a_condition_stay() -> None:
    found = CASES[-1].read()
    assert with_tables(found) == (found, [])


@pytest.mark.parametrize(
    "rounded", [topi.round, topi.floor, lambda x: topi.cast(x, "int32"), lambda x: topi.greater(x, 1.0)]
)
def test_what_is_rounded_or_compared_is_divided(rounded: Callable[[te.Tensor], te.Tensor]) -> None:
    """49 * (1 / 49) is less than 1."""
    x, y = te.placeholder((1, 16, 40), name="x"), te.placeholder((1, 16, 1), name="y")
    found = read(te.create_prim_func([x, y, rounded(topi.divide(x, y))]))
    assert with_tables(found) == (found, [])

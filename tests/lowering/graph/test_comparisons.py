"""Bounds of vectors on a device, as OpenCL compilers read them: PoCL's own is the judge."""

from __future__ import annotations

from pathlib import Path

import pytest
from tvm import s_tir, te, tirx

from tests.opencl.clang import problems
from toolchain.lowering.kernels.compile import compiled
from toolchain.profiles import load_profile
from toolchain.targets.target import device_target


def bounded(dtype: str, lanes: int) -> tirx.PrimFunc:
    """Return min(max(x, 0), 6) by vectors in work items."""
    x = te.placeholder((256,), dtype, name="x")
    zero, six = (tirx.const(value, dtype) for value in (0, 6))
    y = te.compute((256,), lambda i: tirx.min(tirx.max(x[i], zero), six), name="y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    groups, vector = schedule.split(schedule.get_loops("y")[0], [None, lanes])
    groups, items = schedule.split(groups, [None, 8])
    schedule.bind(groups, "blockIdx.x")
    schedule.bind(items, "threadIdx.x")
    schedule.vectorize(vector)
    func: tirx.PrimFunc = schedule.mod["main"]
    return func


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 4), ("float16", 4), ("float16", 8)])
def test_bounds_of_vectors_compile_and_keep_nan(dtype: str, lanes: int, tmp_path: Path) -> None:
    target = device_target(load_profile("rk3399"), "opencl").target
    (kernel,) = compiled(bounded(dtype, lanes), target, "kernel", tmp_path).kernels
    assert "select(" in kernel.source, "a comparison with a NaN is false"
    assert "max(" not in kernel.source and "min(" not in kernel.source, "what these make of a NaN is open"
    assert ("cl_khr_fp16" in kernel.source) == (dtype == "float16")
    assert not problems(kernel.source)


def test_what_has_names_for_its_parts_is_bounded_once(tmp_path: Path) -> None:
    """TVM takes a name for one value alone, and a bound compares what it then takes."""
    x = te.placeholder((256,), name="x")

    def computed(i: tirx.Var) -> tirx.Expr:
        name = tirx.Var("t", "float32")
        return tirx.max(tirx.Let(name, x[i] * x[i], name * name + name), tirx.const(0, "float32"))

    schedule = s_tir.Schedule(te.create_prim_func([x, te.compute((256,), computed, name="y")]))
    items, vector = schedule.split(schedule.get_loops("y")[0], [None, 4])
    schedule.bind(items, "threadIdx.x")
    schedule.vectorize(vector)
    target = device_target(load_profile("rk3399"), "opencl").target
    (kernel,) = compiled(schedule.mod["main"], target, "kernel", tmp_path).kernels
    assert "select(" in kernel.source and not problems(kernel.source)

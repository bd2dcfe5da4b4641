"""Kernels of scheduled functions: names, launches, what buffers they take."""

from __future__ import annotations

import pytest
from tvm.script import tirx as T  # noqa: N812

from tests.runtime.opencl_network import target
from toolchain.errors import ToolchainError, UsageError
from toolchain.lowering.kernels.code import DeviceFunctionCode, code_of, launches_of
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.tasks.candidate import DeviceCode

pytestmark = pytest.mark.slow  # imports TVM


@T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
def two_kernels(
    x: T.Buffer((128, 4), "float32"),  # type: ignore[valid-type]
    y: T.Buffer((128, 4), "float32"),  # type: ignore[valid-type]
    z: T.Buffer((30,), "float16"),  # type: ignore[valid-type]
) -> None:
    T.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True})
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for v in T.vectorized(4):
                y[b * 32 + t, v] = x[b * 32 + t, v] + T.float32(1)
    for b in T.thread_binding(5, thread="blockIdx.y"):
        for t in T.thread_binding(6, thread="threadIdx.y"):
            z[b * 6 + t] = T.Cast("float16", y[b * 6 + t, 0])


def test_each_kernel_has_its_launch_and_its_part_of_the_source() -> None:
    kernels = launches_of(two_kernels, target("x86_64"), "add")
    assert [kernel.name for kernel in kernels] == ["add_kernel", "add_kernel_1"]
    first, second = kernels
    assert (first.group, first.groups) == ((32, 1, 1), (4, 1, 1))
    assert (second.group, second.groups) == ((1, 6, 1), (1, 5, 1))
    assert first.vector_width == 4 and second.vector_width == 1
    assert sorted(first.arguments) == [128 * 4 * 4] * 2 and sorted(second.arguments) == [30 * 2, 128 * 4 * 4]
    for kernel, other in (kernels, kernels[::-1]):
        assert f"void {kernel.name}(" in kernel.source and f"void {other.name}(" not in kernel.source
    assert "cl_khr_fp16" in second.source, "what stands before all kernels belongs to each"


def test_code_of_a_cpu_has_none() -> None:
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def loop(x: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")) -> None:  # type: ignore[valid-type]
        T.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True})
        for i in T.serial(16):
            y[i] = x[i]

    with pytest.raises(UsageError, match="for a CPU: it has no kernels") as told:
        launches_of(loop, target("x86_64").host)
    assert "--device opencl" in told.value.hint


def test_a_candidate_says_what_it_begins() -> None:
    code = code_of(Scheduled(two_kernels), target("x86_64"))
    assert isinstance(code, DeviceCode)
    found = [(kernel.name, kernel.group, kernel.groups) for kernel in code.launches()]
    assert found == [("main_kernel", (32, 1, 1), (4, 1, 1)), ("main_kernel_1", (1, 6, 1), (1, 5, 1))]


def test_what_tvm_cannot_compile_is_told() -> None:
    code = DeviceFunctionCode(b"no recipe", str(target("x86_64")))
    with pytest.raises(ToolchainError, match="TVM cannot compile a candidate"):
        code.launches()

"""Vectors as CUDA C++ has them: those that may be misaligned are split, and lanes of several are mixed."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from tests.testbeds.cuda.child import in_child
from tests.testbeds.cuda.host import computed
from toolchain import tvm_compat
from toolchain.architectures.table import LINUX
from toolchain.lowering.dialects.nvrtc import compile_cuda
from toolchain.lowering.kernels.device import kernels_of
from toolchain.testbeds.cuda import compile_emulated

ITEMS, LANES = 6, 4
TARGET = tvm.target.Target(
    {"kind": "cuda", "arch": "sm_80"}, host={"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu"}
)


def kernel_of(function: tirx.PrimFunc) -> str:
    _host, device = tvm_compat.lower_functions(tvm.IRModule({"copy": function}), TARGET)
    assert device is not None
    (kernel,) = kernels_of(device, TARGET)
    return kernel.source


def copying(distance: int, start: int, dtype: str = "float32") -> str:
    """Return the kernel whose items read and write a vector each, `distance` numbers from the last one's."""
    size = ITEMS * distance + start + LANES
    with IRBuilder() as builder, ir.prim_func():
        ir.func_name("copy")
        ir.func_attr({"global_symbol": "copy", "tirx.is_scheduled": True, "tirx.noalias": True})
        x, y = (ir.arg(name, ir.buffer((size,), dtype)) for name in "xy")
        with ir.launch_thread("threadIdx.x", ITEMS) as item, ir.vectorized(0, LANES) as lane:
            place = item * distance + start + lane
            ir.buffer_store(y, x[place] + tirx.const(1, dtype), [place])
    return kernel_of(builder.get())


def mixing(lanes: list[int]) -> str:
    """Return the kernel that writes lanes of two vectors of four, in an order."""
    with IRBuilder() as builder, ir.prim_func():
        ir.func_name("copy")
        ir.func_attr({"global_symbol": "copy", "tirx.is_scheduled": True, "tirx.noalias": True})
        x, y = ir.arg("x", ir.buffer((8,), "float32")), ir.arg("y", ir.buffer((len(lanes),), "float32"))
        with ir.launch_thread("threadIdx.x", 1):
            vectors = [tirx.BufferLoad(x, [tirx.Ramp(first, 1, 4)]) for first in (0, 4)]
            ir.buffer_store(y, tirx.Shuffle(vectors, lanes), [tirx.Ramp(0, 1, len(lanes))])
    return kernel_of(builder.get())


@pytest.mark.parametrize(
    ("distance", "start", "vectors"), [(4, 0, True), (8, 4, True), (7, 0, False), (4, 2, False)]
)
def test_only_vectors_at_multiples_of_their_size_are_accessed_whole(
    distance: int, start: int, *, vectors: bool
) -> None:
    assert ("float4*)(x" in copying(distance, start)) == vectors
    assert ("float4*)(y" in copying(distance, start)) == vectors


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "float16", "int32", "float32", "int64", "float64"]
)
def test_what_is_split_computes_the_same(dtype: str) -> None:
    """The emulated driver refuses a vector at an address that is not a multiple of its size."""
    source = copying(7, 3, dtype)
    assert compile_cuda(source, 90).code
    x = np.arange(ITEMS * 7 + 3 + LANES, dtype=dtype) - np.array(9, dtype)
    code = compile_emulated(source, LINUX["x86_64"])
    found = in_child(computed, code, "copy_kernel", (1,), (ITEMS,), [x, np.zeros_like(x)]).value[1]
    for item in range(ITEMS):
        first = item * 7 + 3
        assert np.array_equal(found[first : first + LANES], x[first : first + LANES] + 1)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [[0, 4, 1, 5], [7, 0], [3, 3, 2, 6]])
def test_lanes_of_two_vectors_meet_in_one(lanes: list[int]) -> None:
    x = np.arange(8, dtype="float32")
    code = compile_emulated(mixing(lanes), LINUX["x86_64"])
    found = in_child(computed, code, "copy_kernel", (1,), (1,), [x, np.zeros(len(lanes), "float32")]).value[1]
    assert list(found) == lanes

"""The simulator counts what kernels execute, and finds those that are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.opencl.oclgrind import WrongKernelError, simulate

pytestmark = pytest.mark.slow  # a second each

GOOD = """
__kernel void good(__global const float* restrict x, __global float* restrict y, int rows, float scale) {
  __local float shared[4];
  float4 sum = (float4)(0.0f);
  const int i = get_global_id(0);
  for (int k = 0; k < rows; ++k) {
    sum = sum + vload4(k, x) * (float4)(i);
  }
  shared[get_local_id(0)] = x[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  sum = fma(sum, (float4)(scale), (float4)(shared[3 - get_local_id(0)]));
  vstore4(sum, i, y);
}
"""
PRIVATE = """
__kernel void spilled(__global const int* at, __global float* y) {
  float table[16];
  for (int k = 0; k < 16; ++k) table[k] = k * at[0];
  y[get_global_id(0)] = vload4(at[0], table).x + table[at[get_global_id(0)]];
}
"""
RACING = "__kernel void racing(__global float* y) { y[0] = y[0] + get_global_id(0); }"
BEYOND = "__kernel void beyond(__global float* y) { y[get_global_id(0) + 1] = 1.0f; }"
BEFORE = (
    "__kernel void before(__global const float* x, __global float* y) { *y = x[(int)get_global_id(0) - 1]; }"
)
LOCAL_RACE = """
__kernel void unsynchronized(__global float* y) {
  __local float shared[4];
  shared[get_local_id(0)] = y[get_global_id(0)];
  y[get_global_id(0)] = shared[3 - get_local_id(0)];
}
"""


def test_a_kernel_computes_and_is_counted() -> None:
    x = np.arange(16, dtype="float32")
    done = simulate(GOOD, "good", [2], [4], [x, np.zeros(32, "float32"), np.int32(4), np.float32(0.5)])
    i = np.arange(8, dtype="float32")
    shared = x[:8].reshape(2, 4)[:, ::-1].reshape(8)
    expected = x.reshape(4, 4).sum(axis=0) * i[:, None] * 0.5 + shared[:, None]
    np.testing.assert_array_equal(done.outputs[1], expected.reshape(32))
    counts = done.counts
    assert (counts.vector_fmas, counts.fmas(4), counts.fmas(1), counts.fmas(8)) == (8 * 5, 8 * 5, 0, 0)
    assert (counts.global_vector_loads, counts.global_loads) == (8 * 4, 8 * 5)
    assert (counts.local_loads, counts.private_loads, counts.barriers) == (8, 0, 8)
    assert counts.bytes["load local"] == 8 * 4


def test_what_lies_in_no_register_is_counted() -> None:
    done = simulate(PRIVATE, "spilled", [1], [2], [np.array([2, 3], "int32"), np.ones(2, "float32")])
    np.testing.assert_array_equal(done.outputs[1], [2 * (8 + 2), 2 * (8 + 3)])
    assert done.counts.private_loads == 2 * 2 and done.counts.global_vector_loads == 0


@pytest.mark.parametrize(
    ("source", "kernel", "says"),
    [
        (RACING, "racing", "data race"),
        (LOCAL_RACE, "unsynchronized", "data race"),
        (BEYOND, "beyond", "Invalid write of size 4"),
        ("__kernel void bad(__global float* y) { y[0] = z; }", "bad", "undeclared identifier 'z'"),
        (RACING, "other", "clCreateKernel says -46"),
    ],
)
def test_a_wrong_kernel_is_told(source: str, kernel: str, says: str) -> None:
    with pytest.raises(WrongKernelError, match=says):
        simulate(source, kernel, [2], [4], [np.ones(8, "float32")])


def test_what_is_read_before_its_memory_is_told() -> None:
    with pytest.raises(WrongKernelError, match="Invalid read of size 4"):
        simulate(BEFORE, "before", [1], [1], [np.ones(8, "float32"), np.ones(1, "float32")])

"""CUDA's text computes on the emulated driver."""

from __future__ import annotations

import platform

import numpy as np
import pytest
import tvm

from tests.runtime.opencl_network import _plus_one
from tests.testbeds.cuda.child import in_child
from tests.testbeds.cuda.host import computed
from toolchain.architectures.table import LINUX
from toolchain.errors import ToolchainError
from toolchain.lowering.kernels.compile import compile_kernel
from toolchain.lowering.kernels.part import LibraryPart
from toolchain.lowering.kernels.pickling import pickled
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.testbeds.cuda import compile_emulated

pytestmark = pytest.mark.slow

HERE = LINUX[platform.machine()]

PRODUCT = """
extern "C" __global__ void __launch_bounds__(64) product(
    float* __restrict__ a, float* __restrict__ b, float* __restrict__ c) {
  float sum[4];
  __shared__ alignas(64) float left[16 * 32];
  __shared__ float right[32 * 16];
  int t = (int)threadIdx.x, row = (int)blockIdx.y * 16, column = (int)blockIdx.x * 16;
  for (int i = 0; i < 4; ++i) sum[i] = 0.0f;
  for (int k0 = 0; k0 < 4; ++k0) {
    for (int j = t; j < 16 * 32; j += 64) left[j] = a[(row + j / 32) * 128 + k0 * 32 + j % 32];
    for (int j = t; j < 32 * 16; j += 64) right[j] = b[(k0 * 32 + j / 16) * 64 + column + j % 16];
    __syncthreads();
    for (int k = 0; k < 32; ++k)
      for (int i = 0; i < 4; ++i) sum[i] += left[(t / 16 * 4 + i) * 32 + k] * right[k * 16 + t % 16];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) c[(row + t / 16 * 4 + i) * 64 + column + t % 16] = sum[i];
}
"""


def test_a_product_with_shared_memory_and_barriers() -> None:
    random = np.random.default_rng(0)
    a = random.integers(-8, 8, (48, 128)).astype("f4")
    b = random.integers(-8, 8, (128, 64)).astype("f4")
    image = compile_emulated(PRODUCT, HERE)
    *_, c = in_child(computed, image, "product", (4, 3), (64,), (a, b, np.zeros((48, 64), "f4"))).value
    np.testing.assert_array_equal(c, a @ b)


def test_compiler_error_names_the_line() -> None:
    wrong = 'extern "C" __global__ void wrong(float* a) {\n  a[0] = nowhere;\n}\n'
    with pytest.raises(ToolchainError, match=r"line 2: use of undeclared identifier 'nowhere'"):
        compile_emulated(wrong, HERE)


def test_tvm_function_compiles_for_the_emulated_driver() -> None:
    target = tvm.target.Target(
        {"kind": "cuda", "arch": "sm_80", "keys": ["cuda", "gpu", "emulated"]},
        host={"kind": "llvm", "mtriple": HERE.triple},
    )
    part = LibraryPart.of(
        compile_kernel(pickled(Scheduled(_plus_one(64, 16)["main"])), str(target), "kernel_1")
    )
    (code,) = part.unit.codes
    assert (code.architecture, code.compiler) == (0, 0)
    x = np.arange(64, dtype="f4")
    _, out = in_child(computed, code.code, "kernel_1_kernel", (4,), (16,), (x, np.zeros(64, "f4"))).value
    np.testing.assert_array_equal(out, x + 1)

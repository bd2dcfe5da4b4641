"""What threads of a warp do together: tensor cores, shuffles, ldmatrix, copies in the background."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np
import pytest

from tests.testbeds.cuda.child import in_child
from tests.testbeds.cuda.host import computed
from toolchain.architectures.table import LINUX
from toolchain.lowering.dialects.cuda import CUDA
from toolchain.lowering.dialects.nvrtc import compile_cuda
from toolchain.testbeds.cuda import compile_emulated

pytestmark = pytest.mark.slow

HERE = LINUX[platform.machine()]

# One warp; fragments are loaded by the layout that warp.cuh and the PTX ISA describe.
TF32 = """
extern "C" __global__ void __launch_bounds__(32) tf32(float* a, float* b, float* d) {
  int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
  float left[4], right[2], sum[4];
  for (int i = 0; i < 4; ++i) left[i] = edge_tf32(a[(g + i % 2 * 8) * 8 + t + i / 2 * 4]);
  for (int i = 0; i < 2; ++i) right[i] = edge_tf32(b[(t + i * 4) * 8 + g]);
  for (int i = 0; i < 4; ++i) sum[i] = d[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  edge_mma_m16n8k8_tf32(sum, left, right);
  for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
}
"""
HALF = """
extern "C" __global__ void __launch_bounds__(32) half_product(half* a, half* b, float* d) {
  int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
  half left[8], right[4];
  float sum[4];
  for (int i = 0; i < 8; ++i) left[i] = a[(g + i / 2 % 2 * 8) * 16 + 2 * t + i % 2 + i / 4 * 8];
  for (int i = 0; i < 4; ++i) right[i] = b[(2 * t + i % 2 + i / 2 * 8) * 8 + g];
  for (int i = 0; i < 4; ++i) sum[i] = d[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  edge_mma_m16n8k16_f16(sum, left, right);
  for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
}
"""
# As a generator would: fragments by ldmatrix, from shared memory.
LOADED = """
extern "C" __global__ void __launch_bounds__(32) loaded(half* a, half* b, float* d) {
  __shared__ __align__(16) half left[16 * 16];
  __shared__ __align__(16) half right[16 * 16];
  int lane = (int)threadIdx.x, g = lane / 4, t = lane % 4;
  edge_cp_async_16(left + lane * 8, a + lane * 8);
  for (int i = lane; i < 16 * 8; i += 32) right[i / 8 * 16 + i % 8] = b[i];
  for (int i = lane; i < 16 * 8; i += 32) right[i / 8 * 16 + 8 + i % 8] = b[i];
  edge_cp_async_commit();
  edge_cp_async_wait(0);
  __syncwarp();
  unsigned words[4], others[4];
  edge_ldmatrix_x4(words, left + lane % 16 * 16 + lane / 16 * 8);
  edge_ldmatrix_x4_transposed(others, right + lane % 16 * 16 + lane / 16 * 8);
  float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  edge_mma_m16n8k16_f16_words(sum, words, others);
  for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
}
"""
SHUFFLES = """
extern "C" __global__ void __launch_bounds__(64) shuffles(int* out) {
  int lane = (int)threadIdx.x;
  out[lane] = __shfl_sync(0xffffffffu, lane, 5);
  out[64 + lane] = __shfl_up_sync(0xffffffffu, lane, 3, 16);
  out[128 + lane] = __shfl_down_sync(__activemask(), lane, 3, 16);
  out[192 + lane] = __shfl_xor_sync(0xffffffffu, lane, 9);
  out[256 + lane] = (int)__ballot_sync(0xffffffffu, lane % 3 == 0);
}
"""


def run(source: str, kernel: str, threads: int, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    text = CUDA.sections(source)[kernel]
    return in_child(computed, compile_emulated(text, HERE), kernel, (1,), (threads,), arrays).value


def tf32(array: np.ndarray) -> np.ndarray:
    """Round as cvt.rna.tf32 does: to 10 bits behind the point, ties away from zero."""
    return ((array.view("u4") + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view("f4")


def test_tf32_tensor_cores() -> None:
    random = np.random.default_rng(0)
    a, b, d = (random.standard_normal(shape).astype("f4") for shape in ((16, 8), (8, 8), (16, 8)))
    *_, product = run(TF32, "tf32", 32, (a, b, d))
    exact = tf32(a).astype("f8") @ tf32(b).astype("f8") + d
    assert abs(product - exact).max() < 1e-6
    assert abs(a.astype("f8") @ b.astype("f8") + d - exact).max() > 1e-4, "the inputs are rounded"


def test_half_tensor_cores() -> None:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype("f2") for shape in ((16, 16), (16, 8)))
    d = random.standard_normal((16, 8)).astype("f4")
    *_, product = run(HALF, "half_product", 32, (a, b, d))
    assert abs(product - (a.astype("f8") @ b.astype("f8") + d)).max() < 2e-6


def test_matrices_from_shared_memory() -> None:
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(shape).astype("f2") for shape in ((16, 16), (16, 8)))
    *_, product = run(LOADED, "loaded", 32, (a, b, np.zeros((16, 8), "f4")))
    assert abs(product - a.astype("f8") @ b.astype("f8")).max() < 2e-6


def test_shuffles_and_ballots() -> None:
    (lanes,) = run(SHUFFLES, "shuffles", 64, (np.zeros((5, 64), "i4"),))
    lane = np.arange(64)
    np.testing.assert_array_equal(lanes[0], lane // 32 * 32 + 5)
    np.testing.assert_array_equal(lanes[1], np.where(lane % 16 < 3, lane, lane - 3))
    np.testing.assert_array_equal(lanes[2], np.where(lane % 16 >= 13, lane, lane + 3))
    np.testing.assert_array_equal(lanes[3], lane ^ 9)
    ballots = [sum(1 << i for i in range(32) if (warp * 32 + i) % 3 == 0) for warp in range(2)]
    np.testing.assert_array_equal(lanes[4].view("u4"), np.repeat(ballots, 32))


@pytest.mark.parametrize(
    ("source", "kernel"), [(TF32, "tf32"), (HALF, "half_product"), (LOADED, "loaded"), (SHUFFLES, "shuffles")]
)
def test_nvrtc_compiles_the_same_source(source: str, kernel: str) -> None:
    text = CUDA.sections(source)[kernel]
    half = "#include <cuda_fp16.h>\n" if "half" in text else ""
    assert compile_cuda(half + text, 80).code

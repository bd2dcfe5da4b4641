"""What a kernel's own text says."""

from __future__ import annotations

import pytest

from toolchain.devices.kernel import Kernel

SOURCE = """__kernel void main_kernel(__global float* restrict x, __global float* restrict y) {
  float4 sums[14];
  float row[24];
  __private half8 h[2];
  char3 c[5];
  __local float shared[1024];
  sums[0] = vload4(0, x + 3);
  barrier(CLK_LOCAL_MEM_FENCE);
  vstore2(sums[0].xy, 0, y);
}
"""


def test_what_is_read() -> None:
    kernel = Kernel("main_kernel", SOURCE, (8, 4, 2), (3, 2, 1), (16, 64))
    assert (kernel.items_in_group, kernel.items) == (64, 384)
    assert kernel.vector_width == 4
    assert kernel.private_bytes == 14 * 16 + 24 * 4 + 2 * 16 + 5 * 4, "local memory is not private"
    assert kernel.barriers == 1
    assert (
        kernel.computes_half and not Kernel("k", "int halfway; float4 x;", (1, 1, 1), (1, 1, 1)).computes_half
    )


@pytest.mark.parametrize(("text", "width"), [("y[0] = x[0];", 1), ("vload8(0, x)", 8), ("my_vload4(0)", 1)])
def test_the_widest_vector_counts(text: str, width: int) -> None:
    assert Kernel("k", text, (1, 1, 1), (1, 1, 1)).vector_width == width

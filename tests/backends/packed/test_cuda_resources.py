"""The machine code of networks' kernels for NVIDIA's GPUs: what the assembler says of it, without a GPU."""

from __future__ import annotations

import pytest

from toolchain.backends.table import backend_for
from toolchain.building.chosen import chosen
from toolchain.devices.kernel import Resources
from toolchain.lowering.dialects.nvrtc import compile_cuda
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.zoo import ZOO
from toolchain.profiles import load_profile
from toolchain.tasks.options import CodeOptions

ARCHITECTURES = ("sm_80", "sm_87", "sm_90", "sm_120")
FLOATS = 300
"""Values that an item keeps at once in `SPILLING`; with 1024 items in a group it has 64 registers."""
SPILLING = f"""extern "C" __global__ void __launch_bounds__(1024) spilling(float* x) {{
  float kept[{FLOATS}];
  #pragma unroll
  for (int i = 0; i < {FLOATS}; ++i) kept[i] = x[i];
  for (int turn = 0; turn < 9; ++turn) {{
    #pragma unroll
    for (int i = 0; i < {FLOATS}; ++i) kept[i] = kept[i] * kept[(i + 7) % {FLOATS}] + x[turn];
  }}
  #pragma unroll
  for (int i = 0; i < {FLOATS}; ++i) x[i] = kept[i];
}}
"""
SHARED = """extern "C" __global__ void shared(float* x) {
  __shared__ float values[64];
  values[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = values[63 - threadIdx.x];
}
"""


def resources(source: str) -> dict[str, Resources]:
    return dict(compile_cuda(source, 90).resources)


@pytest.mark.slow
def test_the_assemblers_remarks_are_read_kernel_by_kernel() -> None:
    found = resources(SHARED + SPILLING)
    assert sorted(found) == ["shared", "spilling"]
    assert found["shared"].local_bytes == 256 and found["shared"].spilled_bytes == 0
    assert 0 < found["shared"].registers < 32 and found["shared"].architecture == "sm_90"
    assert found["spilling"].registers == 64 and found["spilling"].local_bytes == 0
    assert found["spilling"].spilled_bytes > 0


def in_memory(name: str, architectures: tuple[str, ...], dtype: str = "float32") -> dict[str, int]:
    """Return the bytes that kernels of a network's default code spill or keep on the stack, where any are."""
    options = CodeOptions(device="cuda", arch=",".join(architectures), dtype=dtype)
    backend = backend_for(load_profile("cuda"), options)
    with backend.lower(load_model(f"zoo:{name}", ModelOptions()), backend.target()) as network:
        return {
            f"{task.name}, {each.architecture}": bytes_
            for task in network.tasks
            for kernel in chosen(network, task, None, "cuda").kernels(model=False).kernels
            for each in kernel.kernel.resources
            if (bytes_ := each.spilled_bytes + each.stack_bytes)
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet", "resnet-18"])
def test_no_default_spills(name: str) -> None:
    assert in_memory(name, ARCHITECTURES) == {}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["tfloat32", "float16"])
def test_no_default_spills_with_other_arithmetic(dtype: str) -> None:
    assert in_memory("resnet-18", ("sm_90",), dtype) == {}


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "tfloat32", "float16"])
@pytest.mark.parametrize("name", ZOO)
def test_no_default_of_any_network_spills_on_any_architecture(name: str, dtype: str) -> None:
    assert in_memory(name, ARCHITECTURES, dtype) == {}

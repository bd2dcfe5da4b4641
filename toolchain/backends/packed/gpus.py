"""GPUs as the estimate of a kernel's time sees them: a row for each of NVIDIA's architectures.

Float32 rates, memory bandwidths and limits of a unit are those of NVIDIA's data sheets and of the CUDA C++
Programming Guide ("Compute Capabilities"): A100 SXM, GeForce RTX 3090, Jetson AGX Orin, RTX 4090, H100 SXM,
Jetson AGX Thor, RTX 5090, GB10. Thor's and GB10's rates of tfloat32 follow from those of FP4. Bandwidths of
L2 and latencies are guesses of the right size: nothing of this was measured here. For ResNet-18 in float32
on an H100 the estimates of `direct` sum up to 5.4 ms, where 6.6 ms were measured once through OpenCL
(docs/decisions/0041). Of these numbers only their proportions matter, and records overrule them.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.devices.cuda_architectures import EMULATED, architectures_for, number_of
from toolchain.devices.device import Device


@dataclass(frozen=True)
class GpuRow:
    """A GPU with local (shared) memory.

    Attributes
    ----------
    units
        Compute units (multiprocessors).
    flops
        Float32 operations per second of a unit.
    tensors
        Operations per second of its tensor cores in tfloat32, dense, relative to `flops`.
    bandwidth, cached
        Bytes per second of memory, and of the cache that all units share.
    latency
        Seconds until a value that this cache holds arrives.
    launch
        Seconds from the end of a kernel to the begin of the next one in a graph.
    items, registers, local
        What a unit has: places for work items, registers of 32 bits, bytes of local memory.
    full
        Work items with which a unit comes near its peak.
    """

    units: int
    flops: float
    tensors: float
    bandwidth: float
    cached: float
    latency: float = 0.5e-6
    launch: float = 2e-6
    items: int = 2048
    registers: int = 65536
    local: int = 164 << 10
    full: int = 256


_GPUS = {
    80: GpuRow(108, 19.5e12 / 108, 8, 1.9e12, 4.5e12),
    86: GpuRow(82, 35.6e12 / 82, 1, 0.94e12, 2.5e12, items=1536, local=100 << 10),
    87: GpuRow(16, 5.3e12 / 16, 4, 0.2e12, 0.6e12, items=1536),
    89: GpuRow(128, 82.6e12 / 128, 1, 1.0e12, 5e12, items=1536, local=100 << 10),
    90: GpuRow(132, 67e12 / 132, 7.4, 3.35e12, 5.5e12, local=228 << 10),
    110: GpuRow(20, 8.1e12 / 20, 16, 0.27e12, 0.8e12, items=1536, local=228 << 10),
    120: GpuRow(170, 105e12 / 170, 1, 1.8e12, 5e12, items=1536, local=100 << 10),
    121: GpuRow(48, 31e12 / 48, 1, 0.27e12, 1.5e12, items=1536, local=100 << 10),
}


def gpu_of(device: Device) -> GpuRow:
    """Return the GPU that code for a device of kind `cuda` suits: that of its oldest architecture."""
    names = architectures_for(device)
    wanted = min((number_of(name) for name in names if name != EMULATED), default=min(_GPUS))
    return _GPUS[max(number for number in _GPUS if number <= wanted)]

"""Peaks of GPUs by NVIDIA's data sheets: memory, arithmetic without sparsity."""

from __future__ import annotations

from dataclasses import dataclass

LAUNCH_MS = 0.002
"""Cost of a kernel in a graph: an estimate, until it is measured."""


@dataclass(frozen=True)
class Gpu:
    """Peaks of a GPU, in bytes and floating-point operations a second; tensor cores but for float32."""

    bandwidth: float
    float32: float
    tfloat32: float
    float16: float

    def floor_ms(self, moved: float, flops: float, arithmetic: str) -> float:
        """Return the least milliseconds in which it moves so many bytes and does so many operations."""
        return max(moved / self.bandwidth, flops / float(getattr(self, arithmetic))) * 1e3


GPUS = {
    "H200": Gpu(4.8e12, 66.9e12, 494.7e12, 989.4e12),
    "H100 NVL": Gpu(3.9e12, 60e12, 417.5e12, 835.5e12),
    "H100 PCIe": Gpu(2.0e12, 51.2e12, 378e12, 756e12),
    "H100": Gpu(3.35e12, 66.9e12, 494.7e12, 989.4e12),
    "A100-SXM4-40GB": Gpu(1.555e12, 19.5e12, 156e12, 312e12),
    "A100": Gpu(2.039e12, 19.5e12, 156e12, 312e12),
    "L40S": Gpu(0.864e12, 91.6e12, 183e12, 362e12),
    "L4": Gpu(0.3e12, 30.3e12, 60e12, 121e12),
    "RTX 4090": Gpu(1.008e12, 82.6e12, 82.6e12, 165.2e12),
    "RTX 3090": Gpu(0.936e12, 35.6e12, 35.6e12, 71.2e12),
}
"""By a part of the name that the driver gives; the first that is found counts."""


def gpu_named(name: str) -> Gpu | None:
    """Return the peaks of a GPU; None if the table lacks it."""
    return next((gpu for part, gpu in GPUS.items() if part in name), None)

"""Figures that need no GPU: kernels of an inference, NVRTC's seconds, what a bundle and edge-rt have more."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.sizes import without
from benchmarks.nvidia.building import Target, built
from benchmarks.nvidia.compiling import nvrtc_seconds
from benchmarks.nvidia.contenders import OURS, Ours
from benchmarks.nvidia.graph import input_of
from benchmarks.nvidia.launches import counting_driver, launches
from toolchain.models.zoo import ZOO
from toolchain.runtime import ensure_runtime

ARCH = "sm_90"


def figures(networks: Sequence[str], note: Callable[[str], None]) -> dict[str, Any]:
    """Measure all of them for an H100's architecture, without records of the user."""
    with tempfile.TemporaryDirectory(prefix="bench-cuda-") as name:
        folder = Path(name)
        driver = counting_driver(folder)
        rows = []
        for network in networks:
            for ours in OURS:
                if ours.offered:
                    note(f"{network}, {ours.name}: building and counting")
                    rows.append(_row(network, ours, driver, folder))
        note("NVRTC: compiling a network and candidates")
        seconds = nvrtc_seconds("zoo:resnet-18", "cuda", ARCH)
        note("edge-rt: compiling it without CUDA")
        growth = edge_rt_growth(folder / "edge-rt")
    return {"arch": ARCH, "networks": rows, "nvrtc": seconds, "edge_rt_kib": growth}


def _row(network: str, ours: Ours, driver: Path, folder: Path) -> dict[str, Any]:
    """Return kernels, and the bytes of a bundle beyond weights of the same type and the sample."""
    sample, library = folder / "data.npy", folder / "network.so"
    np.save(sample, input_of(ZOO[network].shape))
    made = built(f"zoo:{network}", sample, ours, Target(arch=ARCH), folder / "out")
    library.write_bytes(made.library)
    weights = made.size["weights"] // (2 if ours.arithmetic == "float16" else 1)
    own = made.size["bundle"] - made.size["sample"]
    return {
        "network": network,
        "name": ours.name,
        "kernels": launches(library, sample, driver),
        "weights_bytes": weights,
        "beyond_bytes": own - weights,
        "transformed_bytes": made.size["winograd"],
    }


def edge_rt_growth(folder: Path) -> float:
    """Return how many KiB CUDA adds to edge-rt for x86-64; compiles it for a minute or more."""
    folder.mkdir()
    program, other = ensure_runtime("x86_64").program, without("cuda", "x86_64", folder)
    return round((program.stat().st_size - other.stat().st_size) / 1024, 1)

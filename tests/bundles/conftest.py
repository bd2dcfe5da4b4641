"""One small bundle's parts, and the bundle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from toolchain.bundles import Manifest, ModelFacts, TargetFacts, TaskFacts, Tensor, write_bundle


@pytest.fixture
def manifest() -> Manifest:
    return Manifest(
        tool_version="0.1.0",
        model=ModelFacts(
            name="tiny", source_name="tiny.onnx", sha256="ab" * 32, softmax_outputs=("gpu_0/prob",)
        ),
        target=TargetFacts(
            triple="aarch64-unknown-linux-gnu",
            mcpu="cortex-a72",
            mattr=("+neon",),
            definition={"kind": "llvm", "mtriple": "aarch64-unknown-linux-gnu", "num-cores": 2},
        ),
        device="cpu",
        requires=("asimd",),
        arch="aarch64",
        board_class="rk3399",
        emulated=True,
        board="rk3399-emulated",
        cluster="cortex-a72",
        threads=2,
        glibc="2.27",
        inputs=(
            Tensor(name="gpu_0/data_0", shape=(1, 3), dtype="float32"),
            Tensor(name="n", shape=(), dtype="int64"),
        ),
        outputs=(Tensor(name="gpu_0/prob", shape=(1, 4), dtype="float32"),),
        tolerance=1e-3,
        tvm="0.27.0.post1",
        tvm_ffi="0.1.14.post1",
        layout="NCHW",
        dtype="float32",
        tasks=(TaskFacts(id="0a", name="conv2d", weight=2, tuned=True, improved=True, source="exact"),),
    )


@pytest.fixture
def library() -> bytes:
    return b"\x7fELF" + bytes(range(256)) * 3


@pytest.fixture
def sample() -> dict[str, np.ndarray]:
    return {"gpu_0/data_0": np.array([[1, 2, 3]], "float32"), "n": np.array(7, "int64")}


@pytest.fixture
def expected() -> dict[str, np.ndarray]:
    return {"gpu_0/prob": np.array([[0.1, 0.2, 0.3, 0.4]], "float32")}


@pytest.fixture
def write(
    manifest: Manifest, library: bytes, sample: dict[str, np.ndarray], expected: dict[str, np.ndarray]
) -> Callable[..., Path]:
    def write(path: Path, **changed: object) -> Path:
        parts = {"manifest": manifest, "library": library, "sample": sample, "expected": expected}
        write_bundle(path, **(parts | changed))
        return path

    return write


@pytest.fixture
def bundle(write: Callable[..., Path], tmp_path: Path) -> Path:
    return write(tmp_path / "tiny.bundle")

"""What launches and barriers cost is measured in a process of its own, on the emulated driver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nvidia.barriers import SOURCE, barrier_kernels
from benchmarks.nvidia.building import Target
from benchmarks.nvidia.members import Members
from benchmarks.nvidia.pack import ROOT
from benchmarks.nvidia.travel.launches import measure_launches
from benchmarks.nvidia.travel.members import Pack
from tests.benchmarks.nvidia.packing import environment_of
from toolchain.lowering.dialects.nvrtc import compile_cuda

pytestmark = pytest.mark.slow  # kernels are compiled, and the emulated driver


@pytest.fixture(scope="module")
def kernels() -> dict[int, bytes]:
    return barrier_kernels(Target("cuda", "sm_80,sm_90,emulated"))


def measured(
    kernels: dict[int, bytes],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float = 60.0,
    **environment: str,
) -> dict[str, Any]:
    """Measure in this checkout as if it were a pack with these kernels."""
    members = Members(folder / "pack")
    entries = {arch: members.compress(f"launches/{arch}", code) for arch, code in kernels.items()}
    (folder / "pack/pack.json").write_text(json.dumps({"version": 1, "launches": entries}))
    for name, value in environment_of(**environment).items():
        monkeypatch.setenv(name, value)
    pack = Pack(folder / "pack")
    (folder / "pack/benchmarks").symlink_to(ROOT / "benchmarks")
    return measure_launches(pack, 2, seconds, folder)


def test_launches_and_barriers_are_timed(
    kernels: dict[int, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    told = measured(kernels, tmp_path, monkeypatch, EDGE_CUDA_LOG=str(log))
    assert told["status"] == "measured", told
    assert (told["blocks"], told["cooperative"]) == (1, False), "the driver runs block after block"
    assert told["chains"].keys() == {"graph", "stream", "barriers"}
    for chain in told["chains"].values():
        medians = chain["medians_us"]
        assert list(medians) == ["1", "25", "100"] and 0 < medians["25"] < medians["100"]
        assert chain["each_us"] == pytest.approx((medians["100"] - medians["25"]) / 75)
        assert 0 < chain["ahead"] <= 1
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    captured = [call["nodes"] for call in calls if call.get("call") == "cuStreamEndCapture"]
    assert captured == [1, 25, 100]


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        ("cuStreamBeginCapture_v2:801", "failed", "_v2 returns CUDA_ERROR_NOT_SUPPORTED (801)"),
        ("cuInit:12345", "failed", "cuInit returns an error (12345)"),
        ("cuEventElapsedTime:hang", "late", "it was killed at its deadline"),
    ],
)
def test_a_driver_that_fails_is_a_status_and_a_reason(
    kernels: dict[int, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    status: str,
    says: str,
) -> None:
    seconds = 2.0 if status == "late" else 60.0
    told = measured(kernels, tmp_path, monkeypatch, seconds, EDGE_CUDA_FAULT=fault)
    assert told["status"] == status and says in told["reason"], told


def test_another_gpus_code_is_not_loaded(
    kernels: dict[int, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = measured(kernels, tmp_path, monkeypatch, EDGE_CUDA_CAPABILITY="12.0")
    assert told["status"] == "failed"
    assert "sm_80, sm_90, and this GPU is of sm_120" in told["reason"]


def test_a_barrier_that_holds_nobody_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SOURCE.read_text()
    broken = tmp_path / "broken.cu"
    broken.write_text(text.replace("% gridDim.x] != i", "% gridDim.x] == i"))
    assert broken.read_text() != text
    monkeypatch.setattr("benchmarks.nvidia.barriers.SOURCE", broken)
    told = measured(barrier_kernels(Target("cuda", "emulated")), tmp_path, monkeypatch)
    assert told["status"] == "failed" and "200 barriers of 1 blocks let 200 on too early" in told["reason"]


@pytest.mark.parametrize("architecture", [80, 90])
def test_nvrtc_compiles_the_kernels(architecture: int) -> None:
    compiled = compile_cuda(SOURCE.read_text(), architecture)
    assert compiled.resources.keys() == {"empty", "barriers", "checked"}
    assert all(each.spilled_bytes == each.stack_bytes == 0 for each in compiled.resources.values())

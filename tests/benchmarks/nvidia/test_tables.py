"""Ratios and tables are made from results as the runner writes them; other documents are refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cuda import main
from benchmarks.nvidia.goals import goals
from benchmarks.nvidia.gpus import gpu_named
from benchmarks.nvidia.report import parts
from benchmarks.nvidia.results import NOTHING, read_results
from toolchain.errors import UsageError


def row(who: str, name: str, ms: float, **more: Any) -> dict[str, Any]:
    return {
        "network": "resnet-18", "batch": 1, "who": who, "name": name, "arithmetic": "float32", "graph": True,
        "status": "measured", "weights_bytes": 46_796_448, "functions": {}, "times_ms": [ms, ms, 9 * ms],
        "error": 1e-6, "gpu": {"clocks.sm": {"median": 1980.0, "min": 1.0, "max": 2.0}}, **more,
    }  # fmt: skip


CONV = "fused_conv2d_add_relu"
DOCUMENT = {
    "version": 1,
    "pack": "0",
    "runs": [
        {
            "date": "2026-01-01", "cpus": 16, "cpu": "a CPU", "peers": {"torch": {"version": "2.13.0"}},
            "cuda": {"names": ["NVIDIA H100 80GB HBM3"], "details": [{"type": "gpu"}]},
        }
    ],
    "rows": {
        "a": row("edge-rt", "float32", 0.1, operators=[{"name": f"{CONV}_1", "calls": 2.0, "ms": 0.05}],
                 functions={CONV: {"label": "64→64 3x3, 56x56", "flops": 66_900_000, "bytes": 3_350}}),
        "b": row("edge-rt", "float32", 0.15, graph=False),
        "c": row("torch", "eager, contiguous", 0.05),
        "d": row("torch", "compile default, contiguous", 0.25),
        "e": row("torch", "compile max-autotune, contiguous", 0.2),
        "f": row("torch", "compile default, contiguous", 0.02, arithmetic="float16"),
        "g": row("torch", "compile x", 1.0, status="crashed", reason="by | signal\n11", times_ms=[]),
    },
}  # fmt: skip
FIGURES = {
    "networks": [
        {"network": "resnet-18", "name": "float32", "kernels": 30, "weights_bytes": 46_796_448,
         "beyond_bytes": 400_000, "transformed_bytes": 0}
    ],
    "nvrtc": {"whole_s": 2.0, "nvrtc": "13.0", "arch": "sm_90", "candidates": 16, "candidate_s": 0.1},
    "edge_rt_kib": 98.0,
}  # fmt: skip


def written(folder: Path, document: Any) -> Path:
    (folder / "results.json").write_text(json.dumps(document))
    return folder / "results.json"


def test_ratios_are_of_medians_to_the_best_that_is_compiled(tmp_path: Path) -> None:
    results = read_results(written(tmp_path, DOCUMENT))
    seen = {figure: value for figure, _, value, _ in goals(results, FIGURES)}
    of = "resnet-18 in float32, batch 1"
    assert seen[f"{of} / best of torch.compile"] == "0.50"
    assert seen[f"{of}, without a graph / best of torch.compile"] == "0.75"
    assert seen["resnet-18 in float16, batch 1 / best of torch.compile"] == "not measured"
    floor = 46_796_448 / 3.35e12 * 1e3 + 30 * 0.002
    assert seen[f"{of}, H100: time / (weights ÷ bandwidth + launches in a graph)"] == f"{0.1 / floor:.2f}"
    assert seen["kernels of an inference, ResNet-18"] == "30"
    assert seen["edge-rt's growth by CUDA (x86-64)"] == "98.0 KiB"


def test_an_operator_stands_beside_its_roofline_and_a_failure_beside_its_reason(tmp_path: Path) -> None:
    made = parts(read_results(written(tmp_path, DOCUMENT)), FIGURES)
    assert "| 64→64 3x3, 56x56 | 2 | 0.0500 | 0.0060 | 8.3 |" in made["operators"]
    assert "- torch, compile x, float32: crashed: by \\| signal 11" in made["latency"]
    assert "| torch, eager, contiguous | float32 | 0.0500 | 0.50 | 1.0e-06 |  | 1980 |" in made["latency"]


def chain(each_us: float, ahead: float = 1.0) -> dict[str, Any]:
    return {
        "each_us": each_us,
        "ahead": ahead,
        "medians_us": {n: 4 + int(n) * each_us for n in ("1", "25", "100")},
    }


def chains(**more: Any) -> dict[str, Any]:
    costs = {"graph": chain(1.5), "stream": chain(2.25, 0.5), "barriers": chain(1.25)}
    return {"status": "measured", "blocks": 132, "threads": 256, "cooperative": True, "chains": costs, **more}


def test_what_one_kernel_would_save_is_told(tmp_path: Path) -> None:
    results = read_results(written(tmp_path, {**DOCUMENT, "launches": chains()}))
    text = parts(results, FIGURES)["launches"]
    assert "| chain of | 1, µs | 25, µs | 100, µs | each, µs |" in text
    assert "| kernels of a graph | 5.5 | 41.5 | 154.0 | 1.50 |" in text
    assert "132 blocks of 256 threads; barriers in a cooperative launch." in text
    assert "so these take less: kernels, launched one by one." in text
    assert "ResNet-18 in float32 as one kernel would save 29 x (1.50 - 1.25) = 7.2 µs of 100.0 µs." in text
    assert "would save" not in parts(results, None)["launches"]
    results = read_results(written(tmp_path, {**DOCUMENT, "launches": {"status": "late", "reason": "a | b"}}))
    assert parts(results, FIGURES)["launches"] == "not measured: late: a \\| b"
    assert parts(read_results(written(tmp_path, DOCUMENT)), FIGURES)["launches"] == "not measured."


def test_an_emulated_gpu_has_no_ratios(tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["runs"][0]["cuda"]["details"][0]["type"] = "cpu"
    results = read_results(written(tmp_path, document))
    assert {seen for _, _, seen, _ in goals(results, None)} == {"not measured"}


def test_nothing_was_measured() -> None:
    made = parts(NOTHING, None)
    assert {seen for _, _, seen, _ in goals(NOTHING, None)} == {"not measured"}
    assert made["latency"] == made["operators"] == "not measured."


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"rows": []},
        {"rows": {"a": {}}},
        {"rows": {"a": {**row("x", "y", 1.0), "times_ms": []}}},
        {"rows": {"a": {**row("x", "y", 1.0), "arithmetic": "__class__"}}},
        {"launches": []},
        {"launches": {"status": "measured"}},
    ],
)  # fmt: skip
def test_other_documents_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        read_results(written(tmp_path, {**DOCUMENT, **change}))


def test_a_mistake_ends_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"error: .*nothing\.json holds no results"):
        main(["--report", str(tmp_path / "nothing.json")])


def test_gpus_are_found_by_their_names() -> None:
    h100 = gpu_named("NVIDIA H100 80GB HBM3")
    assert h100 is not None and h100.bandwidth == 3.35e12
    assert gpu_named("NVIDIA H100 PCIe").bandwidth == 2.0e12
    assert gpu_named("NVIDIA GeForce GTX 1080") is None
    assert h100.floor_ms(3.35e9, 0, "float32") == pytest.approx(1.0)
    assert h100.floor_ms(0, 66.9e9, "float32") == pytest.approx(1.0)

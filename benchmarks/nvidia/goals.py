"""The goals, each with what was measured, or "not measured"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.nvidia.gpus import LAUNCH_MS
from benchmarks.nvidia.results import Measured
from benchmarks.nvidia.travel.plan import OURS

NOT = "not measured"
_MB = 1e6
_GRAPH = {True: "", False: ", without a graph"}
Line = tuple[str, str, str, str]
"""Figure, goal, what was seen, and a remark."""


def goals(results: Measured, figures: dict[str, Any] | None) -> list[Line]:
    """Return a line for each goal.

    Parameters
    ----------
    figures
        What was measured without a GPU; None: nothing.
    """
    return [*_against_torch(results), _floor(results, figures), *_without_gpu(figures or {})]


def _against_torch(results: Measured) -> list[Line]:
    wanted = (
        ("resnet-18", "float32", True, "0.6"),
        ("resnet-18", "float32", False, "0.8"),
        ("resnet-18", "tfloat32", True, "0.8"),
        ("resnet-18", "float16", True, "0.8"),
        ("mobilenet", "float32", True, "0.6"),
    )
    return [
        (
            f"{network} in {arithmetic}, batch 1{_GRAPH[graph]} / best of torch.compile",
            f"≤ {goal}",
            *_ratio(results, network, arithmetic, graph),
        )
        for network, arithmetic, graph, goal in wanted
    ]


def _ratio(results: Measured, network: str, arithmetic: str, graph: bool) -> tuple[str, str]:
    ours = results.best(OURS, network, 1, arithmetic, graph=graph)
    theirs = results.best("torch", network, 1, arithmetic)
    if ours is None or theirs is None or results.emulated:
        return NOT, ""
    found = results.measured(who="torch", network=network, batch=1, arithmetic=arithmetic)
    modes = sum(row["name"].startswith("compile") for row in found)
    return f"{ours / theirs:.2f}", f"{ours:.3f} / {theirs:.3f} ms; {modes} ways to compile were measured"


def _floor(results: Measured, figures: dict[str, Any] | None) -> Line:
    words = "resnet-18 in float32, batch 1, H100: time / (weights ÷ bandwidth + launches in a graph)"
    row = next(results.measured(who=OURS, network="resnet-18", batch=1, arithmetic="float32"), None)
    ours = results.best(OURS, "resnet-18", 1, "float32")
    kernels = kernels_of(figures or {}, "resnet-18", "float32")
    if (
        row is None
        or ours is None
        or results.gpu is None
        or kernels is None
        or "H100" not in results.gpu_name
    ):
        return words, "≤ 3", NOT, ""
    moved = row["weights_bytes"] / results.gpu.bandwidth * 1e3
    floor = moved + kernels * LAUNCH_MS
    return words, "≤ 3", f"{ours / floor:.2f}", f"{moved:.3f} + {kernels} x {LAUNCH_MS} ms"


def kernels_of(figures: dict[str, Any], network: str, name: str) -> int | None:
    """Return the kernels of an inference, by the name of its code; None if they were not counted."""
    rows = figures.get("networks", [])
    found = [row["kernels"] for row in rows if (row["network"], row["name"]) == (network, name)]
    return found[0] if found else None


def _without_gpu(figures: dict[str, Any]) -> Sequence[Line]:
    kernels = kernels_of(figures, "resnet-18", "float32")
    nvrtc = figures.get("nvrtc", {})
    beyond = [row for row in figures.get("networks", []) if row["network"] == "resnet-18"]
    return [
        ("kernels of an inference, ResNet-18", "≤ 26", NOT if kernels is None else str(kernels), ""),
        (
            "NVRTC, CPU seconds, all tasks of ResNet-18 for one architecture",
            "≤ 6",
            f"{nvrtc['whole_s']}" if nvrtc else NOT,
            f"NVRTC {nvrtc['nvrtc']}, {nvrtc['arch']}, a unit for each task" if nvrtc else "",
        ),
        (
            f"the same, a candidate in a batch of {nvrtc.get('candidates', 16)}",
            "≤ 0.4",
            f"{nvrtc['candidate_s']}" if nvrtc else NOT,
            "of the task with the most operations" if nvrtc else "",
        ),
        *(_beyond(row) for row in beyond),
        (
            "edge-rt's growth by CUDA (x86-64)",
            "≤ 100 KB",
            f"{figures['edge_rt_kib']} KiB" if "edge_rt_kib" in figures else NOT,
            "",
        ),
    ]


def _beyond(row: dict[str, Any]) -> Line:
    size = row["beyond_bytes"]
    transformed = row["transformed_bytes"]
    remark = f"{transformed / _MB:.1f} MB of it are weights that winograd transformed" if transformed else ""
    return (
        f"bundle beyond its weights and sample, ResNet-18, {row['name']}",
        "≤ 1 MB",
        f"{size / _MB:.2f} MB",
        remark,
    )

"""What the benchmark writes, from a document with all that can be missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.latency import tables
from benchmarks.latency.document import fill

BY = "benchmarks/cpu.py"
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def entry(ms: float, mib: float) -> dict[str, Any]:
    return {"min_ms": ms, "median_ms": 1.1 * ms, "runs": 50, "error": 1e-6, "peak_mib": mib, "idle_mib": 26.0}


def document() -> dict[str, Any]:
    peers = {"onnxruntime": entry(10.0, 100.0), "mnn": entry(8.0, 50.0)}
    bench = {"min_ms": 6.3, "median_ms": 6.5, "peak_mib": 80.0, "profile_ms": 6.6, "operators": []}
    common = {"network": "resnet-18", "threads": 1}
    return {
        "machine": {
            "date": "2026-01-01",
            "cpu": "a CPU",
            "cores": 1,
            "memory_gib": 4.0,
            "commit": "abc",
            "versions": {"onnxruntime": "1", "mnn": "2", "ncnn": "3"},
        },
        "plan": {"rounds": 4, "runs": 25, "seconds": 0.5},
        "peak": {"gflops": 100.0, "steady_gflops": 90.0, "gbytes": 10.0},
        "networks": [
            {
                "network": "resnet-18",
                "batch": 1,
                "build_s": 20.0,
                "sizes_mib": {"ours": 90.0, "onnxruntime": 45.0, "mnn": 45.0},
            },
            {"network": "resnet-18", "batch": 8, "build_s": None, "sizes_mib": {"onnxruntime": 45.0}},
        ],
        "rows": [
            {
                **common,
                "batch": 1,
                "contenders": {"ours": entry(6.0, 130.0), **peers, "ncnn": {"reason": "no layer for that"}},
                "field": bench,
            },
            {**common, "batch": 8, "contenders": {"ours": {"reason": "out of memory"}, **peers}},
        ],
    }


def cells(text: str, begin: str) -> list[list[str]]:
    """Return the rows of the table under a heading that begins with `begin`."""
    part = text.partition(f"### {begin}")[2].partition("###")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if "|" in line
    ]


def test_ratios_stand_beside_their_goals_and_what_misses_is_bold() -> None:
    header, _, row = cells(tables.markdown(document()), "Batch 1, 1 thread")
    named = dict(zip(header, row, strict=True))
    assert named["ours / onnxruntime"] == "**0.60** (≤ 0.48)"
    assert named["ours / fastest"] == "0.75 (≤ 0.75) MNN"
    assert named["ncnn ms"] == "-"


def test_a_batch_has_no_goal_and_what_did_not_run_no_number() -> None:
    header, _, row = cells(tables.markdown(document()), "Batch 8, 1 thread")
    named = dict(zip(header, row, strict=True))
    assert (named["ours ms"], named["ours / onnxruntime"], named["MNN ms"]) == ("-", "-", "8.00")


def test_memory_of_both_our_programs_size_and_build_have_their_own_numbers() -> None:
    text = tables.markdown(document())
    header, _, row, _ = cells(text, "Memory")
    named = dict(zip(header, row, strict=True))
    assert named["ours / onnxruntime"] == "**1.30** (≤ 1.2)"
    assert named["edge-rt / onnxruntime"] == "0.80 (≤ 1.2)"
    header, _, row, other = cells(text, "Size")
    named = dict(zip(header, row, strict=True))
    assert (named["bundle / ONNX"], named["build s"]) == ("2.00", "**20.0** (≤ 15)")
    assert dict(zip(header, other, strict=True))["build s"] == "-"


def test_bench_stands_beside_the_turns() -> None:
    *_, row = cells(tables.markdown(document()), "`toolchain bench")
    assert row == ["resnet-18", "1", "6.00", "6.30", "+5.0%", "6.60"]


def test_who_cannot_run_is_named_with_the_reason() -> None:
    text = tables.markdown(document())
    assert "- ncnn, resnet-18, batch 1, 1 thread: no layer for that" in text
    assert "- ours, resnet-18, batch 8, 1 thread: out of memory" in text


def test_every_table_is_regular() -> None:
    lines = tables.markdown(document()).splitlines()
    runs = re.findall(r"(?:\|.*\n)+", "\n".join([*lines, ""]))
    assert len(runs) >= 6
    for run in runs:
        assert len({line.count("|") for line in run.splitlines()}) == 1


def test_the_page_is_filled_again_and_again() -> None:
    once = fill(PAGE.read_text(), "tables", "| 1 |", BY)
    assert "\n| 1 |\n" in once
    again = fill(once, "tables", "| 2 |", BY)
    assert again == once.replace("| 1 |", "| 2 |")
    assert fill(again, "figures", "![a](b)", BY).count("![a](b)") == 1


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no lines"):
        fill("# A page", "tables", "", BY)

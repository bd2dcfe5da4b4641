"""The tables of counts and loops, and the page that they are written into."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.arm.tables import BEGIN, END, fill, markdown

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks-arm.md"


def row(ours: int, **peers: int) -> dict[str, object]:
    loop = {
        "executed": ours // 2,
        "instructions": 100,
        "multiply_accumulates": 80,
        "share": 0.8,
        "vector_spills": 1,
    }
    own = {"instructions": ours, "multiply_accumulates": ours // 2, "loops": [loop]}
    found = {name: {"instructions": count, "multiply_accumulates": 0} for name, count in peers.items()}
    return {"network": "mobilenet", "core": "cortex-a72", "ours": own, **found}


def test_the_ratio_is_against_the_better_peer() -> None:
    text = markdown([row(150_000_000, onnxruntime=250_000_000, ncnn=200_000_000)])
    assert "| 150.0 | 75.0 | 250.0 | 200.0 | 0.75 |" in text
    assert "| 50% | 80.0% | 1 of 1 |" in text


def test_where_no_peer_was_counted_there_is_no_ratio() -> None:
    assert "| 150.0 | 75.0 | - | - | - |" in markdown([row(150_000_000)])


def test_only_what_stands_between_the_markers_is_written() -> None:
    page = PAGE.read_text()
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    assert fill(page, "numbers") == f"{before}{BEGIN}\n\nnumbers\n\n{END}{after}"
    with pytest.raises(ValueError, match="begin"):
        fill("no markers", "numbers")

"""Our numbers over the peers'."""

from __future__ import annotations

import pytest

from benchmarks.latency.blocks import alternate, summary
from benchmarks.latency.ratios import fastest, ratio

ROW = {
    "ours": {"min_ms": 3.0, "median_ms": 4.0},
    "onnxruntime": {"min_ms": 6.0, "median_ms": 5.0},
    "openvino": {"min_ms": 5.0, "median_ms": 8.0},
    "ncnn": {"reason": "cannot"},
}


def test_below_one_we_are_faster() -> None:
    assert ratio(ROW, "onnxruntime") == 0.5
    assert ratio(ROW, "onnxruntime", "median_ms") == 0.8


def test_no_ratio_without_both_numbers() -> None:
    assert ratio(ROW, "ncnn") is None
    assert ratio(ROW, "mnn") is None
    assert ratio({"ours": {"reason": "not built"}, "onnxruntime": {"min_ms": 1.0}}, "onnxruntime") is None


def test_the_fastest_is_a_peer_with_a_time() -> None:
    assert fastest(ROW) == "openvino"
    assert fastest(ROW, "median_ms") == "onnxruntime"
    assert fastest({"ours": {"min_ms": 1.0}, "ncnn": {"reason": "cannot"}}) is None


def test_turns_are_blocks_and_begin_with_another_one_each_round() -> None:
    turns: list[str] = []

    def block(name: str, ms: float) -> list[float]:
        turns.append(name)
        return [ms] * 2

    failures: dict[str, str] = {}
    blocks = {name: lambda *_, name=name: block(name, float(ord(name))) for name in "abc"}

    def dies(*_: object) -> list[float]:
        turns.append("d")
        raise RuntimeError("lost")

    times = alternate(
        {**blocks, "d": dies},
        3,
        2,
        0.0,
        lambda name, error: failures.update({name: str(error)}),
        lambda: None,
    )
    assert turns == [*"abcd", *"bca", *"cab"]
    assert failures == {"d": "lost"}
    assert times == {name: [float(ord(name))] * 6 for name in "abc"}


def test_summary_has_the_least_and_the_middle() -> None:
    assert summary([3.0, 1.0, 10.0]) == {"min_ms": 1.0, "median_ms": 3.0, "runs": 3}
    with pytest.raises(ValueError):
        summary([])

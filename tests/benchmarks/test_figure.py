"""The picture of the layers."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.latency.figure import figure
from benchmarks.latency.layers import Function, Layer, label, layers

SVG = "{http://www.w3.org/2000/svg}"
KNOWN = {
    "fused_conv2d_add": Function(2_000_000, "first", "direct"),
    "fused_conv2d1_add": Function(4_000_000, "second", "winograd"),
    "mean": Function(100, "mean", "general"),
}


def test_operators_become_layers_with_gflops_of_all_calls() -> None:
    operators = [
        {"name": "fused_conv2d_add", "calls": 2.0, "ms": 0.5},
        {"name": "fused_conv2d1_add_2", "calls": 1.0, "ms": 2.0},
        {"name": "pack", "calls": 1.0, "ms": 0.1},
    ]
    assert layers(operators, KNOWN) == [
        Layer("second", "winograd", 1.0, 2.0, pytest.approx(2.0)),
        Layer("first", "direct", 2.0, 0.5, pytest.approx(8.0)),
        Layer("pack", "", 1.0, 0.1, 0.0),
    ]


def test_labels_say_what_a_layer_computes() -> None:
    bias = (1, 64, 1, 1)
    shapes = ((1, 3, 224, 224), (64, 3, 7, 7), bias, (1, 64, 112, 112))
    assert label("fused_conv2d_add_relu", shapes) == "3→64 7x7, 112x112"
    shapes = ((1, 64, 58, 58), (64, 1, 3, 3), bias, (1, 64, 56, 56))
    assert label("fused_conv2d3_add_relu", shapes) == "64 depthwise 3x3, 56x56"
    assert label("fused_matmul_add", ((1, 512), (512, 1000), (1000,), (1, 1000))) == "matmul add, 1000"


def test_one_bar_for_each_layer_as_long_as_its_speed() -> None:
    given = [
        Layer("64→64 3x3", "winograd", 3, 2.0, 150.0),
        Layer("<mean>", "general", 1, 1.0, 25.0),
        Layer("pack", "", 1, 0.5, 0.0),
    ]
    root = ElementTree.fromstring(figure("a network", given, 100.0))  # noqa: S314 - ours
    bars = [bar for bar in root.iter(f"{SVG}rect") if "bar" in bar.get("class", "").split()]
    widths = [float(bar.get("width", "")) for bar in bars]
    assert len(bars) == len(given)
    assert widths[0] == pytest.approx(6 * widths[1], rel=0.01)
    assert widths[2] == 0
    assert ["winograd" in bar.get("class", "") for bar in bars] == [True, False, False]
    (peak,) = [line for line in root.iter(f"{SVG}line") if line.get("class") == "peak"]
    left = float(bars[0].get("x", ""))
    assert float(peak.get("x1", "")) - left == pytest.approx(widths[0] * 100 / 150, rel=0.01)
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {"64→64 3x3 (x3)", "<mean>", "pack", "FMA peak 100"} <= set(words)


def test_nothing_lies_outside_the_picture() -> None:
    root = ElementTree.fromstring(figure("a", [Layer("a", "direct", 1, 1.0, 999.0)], 240.0))  # noqa: S314 - ours
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for line in root.iter(f"{SVG}line"):
        assert 0 <= float(line.get("x2", "")) <= width
        assert 0 <= float(line.get("y2", "")) <= height

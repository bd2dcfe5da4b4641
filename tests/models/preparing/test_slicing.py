"""Slices of old operator sets cut what onnxruntime cuts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize(
    "own",
    [
        {"starts": [0, 1], "ends": [1, -1]},
        {"starts": [-3], "ends": [2**63 - 1], "axes": [2]},
        {"starts": [1, -4], "ends": [99, -1], "axes": [1, 2]},
        {"starts": [1, 0], "ends": [3, 1], "axes": [2, 0]},
    ],
)
def test_slices_by_attributes(own: dict[str, Any], opset: int, tmp_path: Path) -> None:
    nodes = [helper.make_node("Slice", ["x"], ["cut"], **own), helper.make_node("Relu", ["cut"], ["y"])]
    inputs, outputs = [tensor_info("x", (2, 3, 5))], [tensor_info("y", ("a", "b", "c"))]
    assert_same(loaded(graph_of(nodes, inputs, outputs, {}, opset), tmp_path))

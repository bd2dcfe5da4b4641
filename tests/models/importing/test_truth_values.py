"""Operators on truth values, one network each: the numbers are onnxruntime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded

pytestmark = pytest.mark.slow

BOOL = TensorProto.BOOL
X = (2, 4, 4, 4)

Case = tuple[list[str], dict[str, Any], dict[str, np.ndarray]]
"""Inputs of a node of which `x` and `y` are the network's, its attributes, its constants."""

CASES: dict[str, Case] = {
    "And": (["x", "y"], {}, {}),
    "Cast": (["x"], {"to": TensorProto.INT64}, {}),
    "Compress": (["x", "c"], {"axis": 1}, {"c": np.array([True, False, True, True])}),
    "Concat": (["x", "y"], {"axis": 1}, {}),
    "Equal": (["x", "y"], {}, {}),
    "Expand": (["x", "s"], {}, {"s": np.array([3, 2, 4, 4, 4])}),
    "Flatten": (["x"], {}, {}),
    "Gather": (["x", "i"], {"axis": 2}, {"i": np.array([1, -1])}),
    "GatherElements": (["x", "i"], {"axis": 1}, {"i": np.arange(128).reshape(X) % 4}),
    "GatherND": (["x", "i"], {}, {"i": np.array([[0, 1], [1, -1]])}),
    "Identity": (["x"], {}, {}),
    "Not": (["x"], {}, {}),
    "Or": (["x", "y"], {}, {}),
    "Pad": (["x", "p"], {}, {"p": np.array([0, 0, 1, 2, 0, 1, 0, 0])}),
    "ReduceMax": (["x", "a"], {}, {"a": np.array([1])}),
    "ReduceMin": (["x", "a"], {"keepdims": 0}, {"a": np.array([1, 3])}),
    "Reshape": (["x", "s"], {}, {"s": np.array([4, -1])}),
    "ReverseSequence": (["x", "l"], {"batch_axis": 0, "time_axis": 1}, {"l": np.array([2, 4])}),
    "ScatterElements": (
        ["x", "i", "u"],
        {"axis": 1},
        {"i": np.array([[[[1]]], [[[3]]]]), "u": np.ones((2, 1, 1, 1), bool)},
    ),
    "ScatterND": (["x", "i", "u"], {}, {"i": np.array([[0, 1, 2, 3]]), "u": np.array([True])}),
    "Slice": (["x", "b", "e", "a"], {}, {"b": np.array([1]), "e": np.array([4]), "a": np.array([2])}),
    "Squeeze": (["x"], {}, {}),
    "Tile": (["x", "r"], {}, {"r": np.array([1, 2, 1, 1])}),
    "Transpose": (["x"], {"perm": [0, 3, 1, 2]}, {}),
    "Trilu": (["x"], {"upper": 0}, {}),
    "Unsqueeze": (["x", "a"], {}, {"a": np.array([1])}),
    "Xor": (["x", "y"], {}, {}),
}
"""The operators that onnxruntime computes of truth values, but those whose shape depends on them."""


@pytest.mark.parametrize("operator", CASES)
def test_an_operator_of_truth_values(operator: str, tmp_path: Path) -> None:
    names, attributes, weights = CASES[operator]
    values = [tensor_info(name, X, BOOL) for name in ("x", "y") if name in names]
    nodes = [helper.make_node(operator, names, ["z"], **attributes)]
    out = tensor_info("z", None, TensorProto.INT64 if operator == "Cast" else BOOL)
    assert_same(loaded(graph_of(nodes, values, [out], weights, 20), tmp_path))


def test_a_quotient_of_integers_rounded_down(tmp_path: Path) -> None:
    """As PyTorch's exporter writes `a // 3`."""
    nodes = [
        helper.make_node("Div", ["x", "three"], ["quotient"]),
        helper.make_node("Mod", ["x", "three"], ["rest"]),
        helper.make_node("Less", ["x", "zero"], ["below"]),
        helper.make_node("Less", ["three", "zero"], ["negative"]),
        helper.make_node("Equal", ["below", "negative"], ["alike"]),
        helper.make_node("Not", ["alike"], ["unlike"]),
        helper.make_node("Equal", ["rest", "zero"], ["whole"]),
        helper.make_node("Not", ["whole"], ["broken"]),
        helper.make_node("And", ["unlike", "broken"], ["lower"]),
        helper.make_node("Cast", ["lower"], ["one"], to=TensorProto.INT64),
        helper.make_node("Sub", ["quotient", "one"], ["y"]),
    ]
    x, y = ([tensor_info(name, (9,), TensorProto.INT64)] for name in ("x", "y"))
    model = loaded(graph_of(nodes, x, y, {"three": np.array(3), "zero": np.array(0)}, 18), tmp_path)
    assert_same(model, inputs={"x": np.arange(-4, 5)})

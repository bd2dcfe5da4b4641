"""The cost of quantising is that of the output part with the lowest SQNR."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.quantising.result import cost_of


def detector(lost: float) -> onnx.ModelProto:
    """Return a network of boxes and scores, side by side; its scores are off by a number."""
    nodes = [
        helper.make_node("Mul", ["x", "stride"], ["boxes"]),
        helper.make_node("Add", ["x", "lost"], ["scores"]),
        helper.make_node("Concat", ["boxes", "scores"], ["y"], axis=1),
    ]
    weights = {"stride": np.array(640, np.float32), "lost": np.array(lost, np.float32)}
    model = graph_of(nodes, [tensor_info("x", [2, 4, 8])], [tensor_info("y", [2, 8, 8])], weights)
    return infer_shapes(model, "detector")


def test_boxes_do_not_hide_what_scores_lost() -> None:
    images = [{"x": np.random.default_rng(0).random((2, 4, 8), np.float32)}]
    cost = cost_of(detector(0.0), detector(0.1), [], images, "detector", random=False, quantizer="mse")
    signal = float(np.square(images[0]["x"]).mean())
    assert cost.part == "y[:, 4:8]"
    assert cost.sqnr_db == pytest.approx(10 * np.log10(signal / 0.1**2), abs=0.01)


def test_the_only_part_has_no_name() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = infer_shapes(graph_of(nodes, [tensor_info("x", [1, 4])], [tensor_info("y", [1, 4])], {}), "relu")
    images = [{"x": np.ones((1, 4), np.float32)}]
    cost = cost_of(model, model, [], images, "relu", random=False, quantizer="mse")
    assert (cost.part, cost.sqnr_db) == ("", 200.0)

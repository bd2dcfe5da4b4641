"""Runs of the judge with noise before roundings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import loaded
from toolchain.models.judging.reference import RUNS, noisy_outputs, reference_outputs, sample_inputs


def test_noise_behind_a_pool_whose_extent_onnx_and_onnxruntime_count_differently(tmp_path: Path) -> None:
    """onnx counts a last window that begins in the padding, onnxruntime does not."""
    nodes = [
        helper.make_node(
            "AveragePool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1], ceil_mode=1
        ),
        helper.make_node("Sigmoid", ["p"], ["s"]),
        helper.make_node("QuantizeLinear", ["s", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    stored = {"scale": np.float32(1 / 256), "zero": np.array(0, np.uint8)}
    graph = graph_of(nodes, [tensor_info("x", (1, 2, 8, 8))], [tensor_info("y", (1, 2, "h", "w"))], stored)
    model = loaded(graph, tmp_path)
    assert model.rounding is not None and model.rounding.uncertain
    inputs = sample_inputs(model)
    expected = reference_outputs(model, inputs)
    runs = list(noisy_outputs(model, inputs, model.rounding.uncertain, 1e-5))
    assert len(runs) == RUNS
    assert all(np.abs(run["y"] - expected["y"]).max() < 1.1 / 256 for run in runs)

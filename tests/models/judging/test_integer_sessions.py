"""Quantised files are judged by integers, also where onnxruntime's optimiser would refuse or change them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.original import outputs_of
from tests.models.rewrites.judge import loaded
from toolchain.models.judging.reference import reference_outputs, sample_inputs


class Steps:
    """A network in QDQ form under construction."""

    def __init__(self, kind: str = "uint8") -> None:
        self.kind = kind
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def node(self, operator: str, inputs: list[str], output: str, **own: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], output, **own))
        return output

    def rounded(self, name: str, scale: float, zero: int) -> str:
        """Round a value to 8 bits and back; return the name of the result."""
        new = f"{name}.r"
        self.weights |= {f"{new}.s": np.float32(scale), f"{new}.z": np.array(zero, self.kind)}
        parameters = [f"{new}.s", f"{new}.z"]
        self.node("QuantizeLinear", [name, *parameters], f"{new}.q")
        return self.node("DequantizeLinear", [f"{new}.q", *parameters], new)

    def model(self, shape: tuple[int, ...], outputs: list[str]) -> onnx.ModelProto:
        values = [tensor_info(name, shape) for name in outputs]
        return graph_of(self.nodes, [tensor_info("x", shape)], values, self.weights, 13)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_weights_that_two_convolutions_share_can_be_judged(kind: str, tmp_path: Path) -> None:
    """onnxruntime's own quantizer writes one DequantizeLinear for both, which its optimiser cannot load."""
    net, random = Steps(kind), np.random.default_rng(0)
    net.weights |= {
        "w": random.integers(-127, 128, (4, 4, 3, 3)).astype(np.int8),
        "w.s": random.uniform(0.002, 0.01, 4).astype(np.float32),
        "w.z": np.zeros(4, np.int8),
    }
    net.node("DequantizeLinear", ["w", "w.s", "w.z"], "real", axis=0)
    value = net.rounded("x", 0.03, 3)
    for place in range(2):
        value = net.rounded(net.node("Conv", [value, "real"], f"c{place}", pads=[1] * 4), 0.05, 7)
    graph = net.model((1, 4, 6, 6), [value])
    model = loaded(graph, tmp_path)
    sample = sample_inputs(model)
    found, literal = reference_outputs(model, sample), outputs_of(graph, sample)
    assert np.abs(found[value] - literal[0]).max() < 0.051  # a step, where a sum in floats meets a half


def test_a_value_that_is_rounded_twice_in_a_row_is_rounded_twice(tmp_path: Path) -> None:
    """As files do that were converted from TensorFlow Lite with its QUANTIZE."""
    net = Steps()
    twice = net.rounded(net.rounded("x", 0.1, 100), 0.07, 90)
    graph = net.model((1, 40), [net.rounded(net.node("Add", [twice, twice], "sum"), 0.14, 90)])
    model = loaded(graph, tmp_path)
    sample = sample_inputs(model)
    (found,) = reference_outputs(model, sample).values()
    np.testing.assert_array_equal(found, outputs_of(graph, sample)[0])


@pytest.mark.parametrize(("axis", "scale"), [(-1, 1 / 255), (1, 1 / 511.9)])
def test_a_softmax_inside_of_a_network_is_computed_in_floats(axis: int, scale: float, tmp_path: Path) -> None:
    """As attention has it. The integer operator would be a step off, or some of its sums would overflow."""
    net = Steps()
    probabilities = net.node("Softmax", [net.rounded("x", 0.05, 120)], "p", axis=axis)
    value = net.rounded(probabilities, scale, 0)
    graph = net.model((3, 2, 12), [net.rounded(net.node("Add", [value, value], "sum"), 2 * scale, 0)])
    model = loaded(graph, tmp_path)
    sample = sample_inputs(model)
    (found,) = reference_outputs(model, sample).values()
    np.testing.assert_allclose(found, outputs_of(graph, sample)[0], atol=scale / 100)


def test_floats_times_weights_of_steps_stay_floats(tmp_path: Path) -> None:
    """As in files whose weights alone are quantised. The optimiser would round the floats to 8 bits."""
    net, random = Steps(), np.random.default_rng(0)
    net.weights |= {
        "w": random.integers(-127, 128, (40, 24)).astype(np.int8),
        "w.s": random.uniform(0.002, 0.01, 24).astype(np.float32),
        "w.z": np.zeros(24, np.int8),
    }
    net.node("DequantizeLinear", ["w", "w.s", "w.z"], "real", axis=1)
    net.node("MatMul", ["x", "real"], "y")
    value = net.rounded("x", 0.02, 120)
    other = net.rounded(net.node("Add", [value, value], "sum"), 0.04, 120)
    graph = net.model((3, 40), ["y", other])
    graph.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 24
    model = loaded(graph, tmp_path)
    sample = sample_inputs(model)
    wanted = outputs_of(graph, sample)[0]
    np.testing.assert_allclose(reference_outputs(model, sample)["y"], wanted, atol=1e-5)

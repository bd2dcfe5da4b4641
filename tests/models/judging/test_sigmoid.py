"""The reference of a probability that is almost 0 is exact, where onnxruntime's own is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from tests.models.graphs import tensor_info
from toolchain.models.judging.reference import reference_outputs
from toolchain.models.judging.session import sigmoid_inputs
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

X = np.linspace(-40, 40, 64, dtype=np.float32).reshape(1, 64)


def network(*names: str) -> onnx.ModelProto:
    """Return probabilities, plain and reshaped, of twice the input, which are an output too if named."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("Sigmoid", ["twice"], ["p"]),
        helper.make_node("Reshape", ["p", "shape"], ["q"]),
    ]
    shapes = {"twice": (1, 64), "p": (1, 64), "q": (8, 8)}
    shape = numpy_helper.from_array(np.array([8, 8]), "shape")
    outputs = [tensor_info(name, shapes[name]) for name in names]
    graph = helper.make_graph(nodes, "net", [tensor_info("x", (1, 64))], outputs, [shape])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("names", [("p",), ("q",), ("p", "q"), ("q", "twice", "p")])
def test_small_probabilities_are_exact(tmp_path: Path, names: tuple[str, ...]) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(*names), str(path))
    model = load_model(str(path), ModelOptions())
    outputs = reference_outputs(model, {"x": X})
    assert list(outputs) == list(names)
    exact = 1 / (1 + np.exp(-2.0 * X.astype(np.float64)))
    for name in set(names) - {"twice"}:
        np.testing.assert_allclose(outputs[name].ravel(), exact.ravel(), rtol=1e-6, atol=1e-37)
    assert len(model.onnx.graph.output) == len(names)  # the model is as it was


def test_onnxruntime_own_sigmoid_is_inexact() -> None:
    session = onnxruntime.InferenceSession(
        network("p").SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"x": X})
    exact = 1 / (1 + np.exp(-2.0 * X.astype(np.float64)))
    small = (exact > 1e-8) & (exact < 1e-6)
    assert np.abs(found - exact)[small].max() > 0.01 * exact[small].max()


def test_a_sigmoid_inside_or_of_an_input_does_not_count() -> None:
    inside = network("p")
    inside.graph.node.append(helper.make_node("Relu", ["p"], ["y"]))
    del inside.graph.output[:]
    inside.graph.output.append(tensor_info("y", (1, 64)))
    assert sigmoid_inputs(inside) == {}
    alone = network("p")
    del alone.graph.node[0]
    alone.graph.node[0].input[0] = "x"
    assert sigmoid_inputs(alone) == {}

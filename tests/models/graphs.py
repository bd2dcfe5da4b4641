"""Small networks that tests write to files, as a user's exporter would."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dimensions = Sequence[int | str] | None


def tensor_info(name: str, shape: Dimensions, code: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Return the declaration of a tensor; None leaves its rank open."""
    return helper.make_tensor_value_info(name, code, shape)


def graph_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: dict[str, np.ndarray],
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a model with these nodes."""
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def classifier(
    *,
    name: str = "data",
    shape: Dimensions = (1, 3, 8, 8),
    opset: int = 17,
    extra: Sequence[onnx.NodeProto] = (),
    extra_outputs: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    """Return conv, batch norm, ReLU, pooling, dense, softmax: input `name`, output `prob` [N, 5].

    `extra` nodes may read `logits` and `prob`.
    """
    random = np.random.default_rng(0)
    weights = {
        "conv.weight": random.normal(size=(4, 3, 3, 3)),
        "bn.gamma": random.normal(size=4),
        "bn.beta": random.normal(size=4),
        "bn.mean": random.normal(size=4),
        "bn.var": random.uniform(0.5, 1.5, 4),
        "fc.weight": random.normal(size=(5, 4)),
        "fc.bias": random.normal(size=5),
    }
    nodes = [
        helper.make_node("Conv", [name, "conv.weight"], ["c"], "conv", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", *list(weights)[1:5]], ["b"], "bn"),
        helper.make_node("Relu", ["b"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1),
        helper.make_node("Softmax", ["logits"], ["prob"], "softmax", axis=1),
        *extra,
    ]
    if opset < 7:  # these asked for broadcasting and inference explicitly
        nodes[1].attribute.append(helper.make_attribute("is_test", 1))
        nodes[5].attribute.append(helper.make_attribute("broadcast", 1))
    outputs = [tensor_info("prob", (shape[0] if shape else "N", 5)), *extra_outputs]
    stored = {key: array.astype(np.float32) for key, array in weights.items()}
    return graph_of(nodes, [tensor_info(name, shape)], outputs, stored, opset)

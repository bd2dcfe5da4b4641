"""Exact sigmoids for outputs: near 0, onnxruntime's have a relative error of a tenth and more.

Its approximation has an absolute error of about 1e-7. So a network with small probabilities for the sample,
such as a wake-word detector, would be compared with a wrong reference.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from toolchain.models.softmax import TRANSPARENT


def sigmoid_inputs(model: onnx.ModelProto) -> dict[str, str]:
    """Return output -> name of the float32 tensor of which the output is the Sigmoid."""
    makers = {output: node for node in model.graph.node for output in node.output}
    found = {}
    for output in model.graph.output:
        node = makers.get(output.name)
        while node is not None and node.op_type in TRANSPARENT:
            node = makers.get(node.input[0])
        if node is None or node.op_type != "Sigmoid" or not _is_float32(output):
            continue
        if node.input[0] in makers:
            found[output.name] = node.input[0]
    return found


def with_outputs(model: onnx.ModelProto, names: set[str]) -> bytes:
    """Return the serialised model with more outputs.

    They are appended as a second message: protobuf merges consecutive messages, so no copy of the weights is
    needed.
    """
    there = {output.name for output in model.graph.output}
    more = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in sorted(names - there)]
    tail = onnx.ModelProto(graph=onnx.GraphProto(output=more))
    return bytes(model.SerializeToString() + tail.SerializeToString())


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)), computed in float64."""
    with np.errstate(over="ignore"):
        return (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(np.float32)


def _is_float32(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.FLOAT)

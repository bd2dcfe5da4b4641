"""Exact values of outputs that a Sigmoid makes: onnxruntime's own are off by a tenth and more near 0.

Its approximation is right to about 1e-7 of 1. A network whose probabilities are small for the sample, such
as one that waits for a word, would be compared with that error.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from toolchain.models.judging.softmax import TRANSPARENT


def sigmoid_inputs(model: onnx.ModelProto) -> dict[str, str]:
    """Return, by output that is the Sigmoid of a float32 tensor, that tensor's name."""
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

    They are a second message behind the first: protobuf merges messages that follow one another, which
    spares a copy of the weights.
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

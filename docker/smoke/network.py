"""Writes a network of a few kilobytes: `python network.py FILE.onnx`. What the images' tests compile."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

weights = np.random.default_rng(0).normal(0, 0.2, (8, 3, 3, 3)).astype(np.float32)
graph = helper.make_graph(
    [
        helper.make_node("Conv", ["data", "weights"], ["convolved"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["convolved"], ["positive"]),
        helper.make_node("GlobalAveragePool", ["positive"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["output"]),
    ],
    "tiny",
    [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, 16, 16])],
    [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 8])],
    [numpy_helper.from_array(weights, "weights")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
onnx.save(model, sys.argv[1])

"""Writes the network of docs/architecture.md: `python convolution.py FILE.onnx`."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

weight = np.random.default_rng(0).standard_normal((16, 8, 3, 3)).astype(np.float32)
graph = helper.make_graph(
    [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ],
    "convolution",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 14, 14])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 14, 14])],
    [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.ones(16, np.float32), "b")],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])

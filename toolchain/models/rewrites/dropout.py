"""`Dropout` of a network that is no longer trained: its input, as it is."""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.models.rewrites.graph import Graph


def without_dropout(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write the input; and the mask, which keeps all, where it is read.

    Else TVM's function has two outputs, and what is fused with it no rule of its own.
    """
    if len(node.input) > 2 and node.input[2]:
        training = graph.value(node.input[2])
        if training is None or training.any():
            return False
    if len(node.output) > 1 and node.output[1] in graph.readers:
        shape = graph.shape(node.input[0])
        if shape is None:
            return False
        # Since set 12 the mask says what is kept. Before, inference did not define it: onnxruntime says 0.
        kept = np.ones(shape, bool) if graph.opset >= 12 else np.zeros(shape, graph.dtype(node.output[1]))
        mask = graph.constant(kept)
        graph.emit("Identity", [mask], [node.output[1]])
    graph.emit("Identity", [node.input[0]], [node.output[0]])
    return True

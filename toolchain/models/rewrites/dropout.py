"""Removes `Dropout`, which is the identity in inference."""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.errors import UsageError
from toolchain.models.rewrites.graph import Graph
from toolchain.models.walk import node_name


def without_dropout(node: onnx.NodeProto, graph: Graph) -> bool:
    """Replace `Dropout` by its input, and its mask, if it is read, by a constant.

    With TVM's own function there would be two outputs, which no rule of code generation handles.
    """
    if len(node.input) > 2 and node.input[2]:
        _check_inference(node, graph)
    if len(node.output) > 1 and node.output[1] in graph.readers:
        shape = graph.shape(node.input[0])
        if shape is None:
            return False
        # Since set 12 the mask marks kept values. Before, inference left it undefined: onnxruntime gives 0.
        kept = np.ones(shape, bool) if graph.opset >= 12 else np.zeros(shape, graph.dtype(node.output[1]))
        mask = graph.constant(kept)
        graph.emit("Identity", [mask], [node.output[1]])
    graph.emit("Identity", [node.input[0]], [node.output[0]])
    return True


def _check_inference(node: onnx.NodeProto, graph: Graph) -> None:
    training = graph.value(node.input[2])
    ratio = graph.value(node.input[1]) if node.input[1] else np.float32(0.5)
    never = training is not None and not training.any()
    if never or (ratio is not None and not np.any(ratio)):
        return
    raise UsageError(
        f"{graph.origin}: unsupported use of Dropout (node {node_name(node)!r}): in training mode it drops "
        "values at random",
        "export the network for inference, after model.eval() in PyTorch",
    )

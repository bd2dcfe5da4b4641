"""Rewrites the operator that finds infinite values, `IsInf`."""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.models.rewrites.graph import Graph
from toolchain.models.walk import attributes_of


def infinite_of_a_sign(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `IsInf` that detects only one sign of infinity, or neither, as a comparison with infinity."""
    own = attributes_of(node)
    positive, negative = own.get("detect_positive", 1), own.get("detect_negative", 1)
    if positive and negative:
        return False
    x = node.input[0]
    limit = np.inf if positive else -np.inf
    if not (positive or negative):  # no number is larger than infinity
        graph.emit("Greater", [x, graph.constant(np.asarray(np.inf, graph.dtype(x)))], node.output)
        return True
    graph.emit("Equal", [x, graph.constant(np.asarray(limit, graph.dtype(x)))], node.output)
    return True

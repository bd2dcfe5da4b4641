"""Rewrites average pools of quantised values."""

from __future__ import annotations

import math

import numpy as np
import onnx

from toolchain.models.rewrites.graph import Graph
from toolchain.models.rewrites.quantised.values import as_float, centred, real, requantised, rounded, zero_of
from toolchain.models.walk import attributes_of


def global_average_pool(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.QLinearGlobalAveragePool` with inputs (x, scale, zero, y's scale, zero)."""
    x, x_scale, x_zero, y_scale, *rest = node.input
    shape = graph.shape(x)
    if shape is None or attributes_of(node).get("channels_last", 0):
        return False
    sums = graph.reduce("ReduceSum", centred(graph, x, x_zero), range(2, len(shape)))
    count = graph.constant(np.float32(math.prod(shape[2:])))
    factor = graph.emit("Div", [x_scale, graph.emit("Mul", [y_scale, count])])
    requantised(graph, sums, factor, zero_of(graph, *rest) if rest else zero_of(graph, ""), list(node.output))
    return True


def average_pool(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.QLinearAveragePool` with inputs (x, scale, zero, y's scale, zero).

    onnxruntime rounds after it has added the zero point, so that halves go another way than in the standard.
    """
    x, x_scale, x_zero, y_scale, *rest = node.input
    own = attributes_of(node)
    if own.pop("channels_last", 0):
        return False
    y_zero = zero_of(graph, *rest) if rest else zero_of(graph, "")
    mean = graph.emit("AveragePool", [real(graph, x, x_scale, x_zero)], **own)
    steps = graph.emit("Add", [graph.emit("Div", [mean, y_scale]), as_float(graph, y_zero)])
    none = graph.constant(np.zeros((), graph.dtype(y_zero)), "zero")
    rounded(graph, steps, none, list(node.output))
    return True

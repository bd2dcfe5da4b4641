"""Rewrites float operators as products, average pools and convolutions, which have an integer form."""

from __future__ import annotations

import math

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.models.quantising.affine.index import Index
from toolchain.models.rewrites.graph import Graph, Rule
from toolchain.models.walk import attributes_of

_EPSILON = 1e-5  # default of the attribute, https://onnx.ai/onnx/operators/onnx__BatchNormalization.html


def rules_for(index: Index) -> dict[str, Rule]:
    """Return the rules for a graph, by operator."""

    def biased(node: onnx.NodeProto, graph: Graph) -> bool:
        return dense_with_bias(node, graph, index)

    def alone(node: onnx.NodeProto, graph: Graph) -> bool:
        return batch_norm_alone(node, graph, index)

    return {"Add": biased, "BatchNormalization": alone, "ReduceMean": mean_of_images}


def dense_with_bias(node: onnx.NodeProto, graph: Graph, index: Index) -> bool:
    """Rewrite a sum of a MatMul and a stored bias as a Gemm, whose bias is added before rounding."""
    for product, bias in (node.input, reversed(node.input)):
        maker = index.makers.get(product)
        offset = graph.value(bias)
        if maker is None or offset is None or not index.read_once(product):
            continue
        dense = index.nodes[maker]
        weight = graph.value(dense.input[1]) if dense.op_type == "MatMul" else None
        shape = graph.shape(dense.input[0])
        if weight is None or weight.ndim != 2 or shape is None or len(shape) < 2 or not math.prod(shape):
            continue
        if offset.size not in (1, weight.shape[1]) or any(extent != 1 for extent in offset.shape[:-1]):
            continue  # a number for each row
        if offset.ndim > len(shape):  # the sum has more dimensions than the product
            continue
        terms = graph.constant(np.broadcast_to(offset.reshape(-1), weight.shape[1:]), bias)
        if len(shape) == 2:
            graph.emit("Gemm", [dense.input[0], dense.input[1], terms], node.output)
            return True
        rows = graph.reshape(dense.input[0], (math.prod(shape[:-1]), shape[-1]))
        made = graph.emit("Gemm", [rows, dense.input[1], terms])
        graph.reshape(made, (*shape[:-1], weight.shape[1]), node.output)
        return True
    return False


def mean_of_images(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite a ReduceMean over height and width as a GlobalAveragePool, as exporters write pools."""
    own, shape = attributes_of(node), graph.shape(node.input[0])
    axes = own.get("axes")
    if len(node.input) > 1 and node.input[1]:
        stored = graph.value(node.input[1])
        axes = None if stored is None else stored.tolist()
    # In three dimensions it may as well be a mean over features.
    if shape is None or len(shape) < 4 or axes is None or graph.dtype(node.input[0]) != "float32":
        return False
    if sorted(axis % len(shape) for axis in axes) != list(range(2, len(shape))):
        return False
    if own.get("keepdims", 1):
        graph.emit("GlobalAveragePool", [node.input[0]], node.output)
    else:
        graph.reshape(graph.emit("GlobalAveragePool", [node.input[0]]), shape[:2], node.output)
    return True


def batch_norm_alone(node: onnx.NodeProto, graph: Graph, index: Index) -> bool:
    """Rewrite a BatchNormalization that no convolution can take in as a convolution of each channel alone."""
    own, shape = attributes_of(node), graph.shape(node.input[0])
    stored = [graph.value(name) for name in node.input[1:5]]
    if own.get("training_mode", 0) or shape is None or len(shape) != 4 or node.input[0] not in index.makers:
        return False
    if any(each is None or each.dtype != np.float32 for each in stored):
        return False
    gamma, beta, mean, variance = (np.asarray(each, np.float64) for each in stored)
    factor = gamma / np.sqrt(variance + own.get("epsilon", _EPSILON))
    weight: Array = factor.reshape(-1, 1, 1, 1).astype(np.float32)
    bias: Array = (beta - mean * factor).astype(np.float32)
    inputs = [node.input[0], graph.constant(weight, node.input[1]), graph.constant(bias, node.input[2])]
    graph.emit("Conv", inputs, node.output, group=len(weight), kernel_shape=[1, 1])
    return True

"""How big a network is: parameters and multiply-accumulates."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx
from onnx import TensorProto

from toolchain.models.shapes import Shape, dimensions
from toolchain.models.walk import all_nodes, all_tensors

WEIGHT_TYPES = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT8,
    }
)
"""Element types of weights; wider integers are shapes, axes and indices."""


def count_parameters(model: onnx.ModelProto) -> int:
    """Count the learnt values; running statistics of batch norms don't count, as in published numbers."""
    batch_norms = (node for node in all_nodes(model.graph) if node.op_type == "BatchNormalization")
    statistics = {name for node in batch_norms for name in node.input[3:5]}
    return sum(
        math.prod(tensor.dims)
        for tensor in all_tensors(model.graph)
        if tensor.data_type in WEIGHT_TYPES and tensor.name not in statistics
    )


def count_macs(model: onnx.ModelProto) -> int | None:
    """Count the multiply-accumulates of convolutions and matrix products.

    Parameters
    ----------
    model
        With inferred shapes.

    Returns
    -------
    int or None
        None where a shape that matters is not known.
    """
    graph = model.graph
    shapes: dict[str, Shape | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes.setdefault(value.name, dimensions(value))
    counts = [_node_macs(node, shapes) for node in graph.node]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _node_macs(node: onnx.NodeProto, shapes: Mapping[str, Shape | None]) -> int | None:
    if node.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
        return 0
    left, right = (_static(shapes.get(name)) for name in node.input[:2])
    out = _static(shapes.get(node.output[0]))
    if left is None or right is None or out is None:
        return None
    if node.op_type == "Conv":  # weight [out, in / groups, kernel…]: every output element
        return math.prod(out) * math.prod(right[1:])
    if node.op_type == "ConvTranspose":  # weight [in, out / groups, kernel…]: every input element
        return math.prod(left) * math.prod(right[1:])
    transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
    return math.prod(out) * (left[0] if transposed else left[-1])


def _static(shape: Shape | None) -> tuple[int, ...] | None:
    extents = tuple(extent for extent in shape or () if isinstance(extent, int))
    return extents if shape is not None and len(extents) == len(shape) else None

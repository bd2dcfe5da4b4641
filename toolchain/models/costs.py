"""Counts the parameters and multiply-accumulates of a network."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import onnx
from onnx import TensorProto

from toolchain.models.folding.few_bits import FEW_BITS
from toolchain.models.preparing.declared import Shape, dimensions
from toolchain.models.recurrent.spec import GATES
from toolchain.models.walk import all_nodes, all_tensors

WEIGHT_TYPES = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT8,
        *FEW_BITS,
    }
)
"""Element types of weights; wider integers are shapes, axes and indices."""

_COUNTED: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger"), (0, 1)),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), (0, 3)),
    **dict.fromkeys([str(cell) for cell in GATES], (0, 1)),
}
"""Indices of the data and weight inputs, by operator."""


def count_parameters(model: onnx.ModelProto) -> int:
    """Count the learnt parameters, as published numbers do: without running statistics of batch norms."""
    batch_norms = (node for node in all_nodes(model.graph) if node.op_type == "BatchNormalization")
    statistics = {name for node in batch_norms for name in node.input[3:5]}
    return sum(
        math.prod(tensor.dims)
        for tensor in all_tensors(model.graph)
        if tensor.data_type in WEIGHT_TYPES and tensor.name not in statistics
    )


def count_macs(model: onnx.ModelProto) -> int | None:
    """Count the multiply-accumulates of convolutions, matrix products and recurrent layers.

    Parameters
    ----------
    model
        A folded model: with inferred shapes, and with decided branches and loops written flat.

    Returns
    -------
    int or None
        None if a shape that matters or the trip count of a loop is unknown.
    """
    graph = model.graph
    shapes: dict[str, Shape | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes.setdefault(value.name, dimensions(value))
    total = 0
    for node in graph.node:
        if any(inner.op_type in _COUNTED for inner in _inside(node)):
            return None
        count = _node_macs(node, shapes) if node.op_type in _COUNTED else 0
        if count is None:
            return None
        total += count
    return total


def _inside(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from all_nodes(graph)


def _node_macs(node: onnx.NodeProto, shapes: Mapping[str, Shape | None]) -> int | None:
    left, right = (_static(shapes.get(node.input[index])) for index in _COUNTED[node.op_type])
    out = _static(shapes.get(next(filter(None, node.output))))
    if left is None or right is None or out is None:
        return None
    if node.op_type in GATES:  # weights [directions, gates by hidden, inputs]
        directions, rows, inputs = right
        hidden = rows // GATES[node.op_type]
        return math.prod(left[:2]) * directions * rows * (inputs + hidden)
    if node.op_type.endswith("ConvTranspose"):  # weight [in, out / groups, kernel…]: every input element
        return math.prod(left) * math.prod(right[1:])
    if "Conv" in node.op_type:  # weight [out, in / groups, kernel…]: every output element
        return math.prod(out) * math.prod(right[1:])
    transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
    return math.prod(out) * (left[0] if transposed else left[-1])


def _static(shape: Shape | None) -> tuple[int, ...] | None:
    extents = tuple(extent for extent in shape or () if isinstance(extent, int))
    return extents if shape is not None and len(extents) == len(shape) else None

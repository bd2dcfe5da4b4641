"""Finds the outputs that are probabilities, which are compared by their logarithms."""

from __future__ import annotations

import math

import onnx

from toolchain.models.preparing.declared import dimensions
from toolchain.models.walk import opset_of

TRANSPARENT = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout"})
"""Operators that keep the values and their order."""


def softmax_outputs(model: onnx.ModelProto) -> frozenset[str]:
    """Return the names of outputs whose last dimension sums to one because a Softmax made it.

    `LogSoftmax` does not count: its output is a logarithm already, to be compared as it is. Nor does a
    Softmax over another dimension than the output's last: centring along the last would be wrong.
    """
    makers = {output: node for node in model.graph.node for output in node.output}
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    shapes = {value.name: dimensions(value) for value in values}
    opset = opset_of(model)
    found = set()
    for output in model.graph.output:
        node = makers.get(output.name)
        while node is not None and node.op_type in TRANSPARENT:
            node = makers.get(node.input[0])
        if node is None or node.op_type != "Softmax":
            continue
        shape, last = shapes.get(node.output[0]), shapes.get(output.name)
        if shape and last and _classes(node, shape, opset) == last[-1]:
            found.add(output.name)
    return frozenset(found)


def _classes(node: onnx.NodeProto, shape: tuple[int | str, ...], opset: int) -> int | None:
    """Return how many neighbouring elements sum to one; None if they are not neighbours."""
    axis = next((a.i for a in node.attribute if a.name == "axis"), -1 if opset >= 13 else 1) % len(shape)
    extents = [extent for extent in shape[axis:] if isinstance(extent, int)]
    if len(extents) != len(shape) - axis:
        return None
    if opset < 13:  # flattened to two dimensions at the axis
        return math.prod(extents)
    return extents[0] if math.prod(extents[1:]) == 1 else None

"""Rewrites transposed convolutions with a given output shape."""

from __future__ import annotations

import onnx

from toolchain.models.rewrites.graph import Graph
from toolchain.models.walk import attributes_of


def transposed_to_shape(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `ConvTranspose` with `output_shape`: compute the padding that gives that shape."""
    own = attributes_of(node)
    shape, weight = graph.shape(node.input[0]), graph.shape(node.input[1])
    wanted = own.pop("output_shape", None)
    if wanted is None or shape is None or weight is None:
        return False
    rank = len(shape) - 2
    strides = own.get("strides", [1] * rank)
    dilations = own.get("dilations", [1] * rank)
    more = list(own.get("output_padding", [0] * rank))
    begins, ends = [], []
    upper = own.pop("auto_pad", b"NOTSET") == b"SAME_UPPER"
    for axis in range(rank):
        made = (
            strides[axis] * (shape[2 + axis] - 1) + more[axis] + (weight[2 + axis] - 1) * dilations[axis] + 1
        )
        total = made - wanted[-rank:][axis]
        if total < 0:
            more[axis] -= total
            total = 0
        begin = total // 2 if upper else total - total // 2
        begins.append(begin)
        ends.append(total - begin)
    own |= {"pads": begins + ends, "output_padding": more}
    graph.emit("ConvTranspose", list(node.input), node.output, **own)
    return True

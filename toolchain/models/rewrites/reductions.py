"""Rewrites reductions that have no axes, and means of integers."""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.errors import UsageError
from toolchain.models.rewrites.graph import Graph
from toolchain.models.walk import attributes_of, node_name

_OF_REALS = frozenset({"ReduceL2", "ReduceLogSum", "ReduceLogSumExp"})


def reduction(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite a reduction without axes: one of all axes or, with `noop_with_empty_axes`, of each element.

    The reduction of a single element is that of an axis of length one, such as its absolute value for
    `ReduceL1`. A mean of integers becomes their sum, divided as integers are: towards zero.

    Raises
    ------
    UsageError
        It takes roots or logarithms of integers.
    """
    own = attributes_of(node)
    x = node.input[0]
    shape = graph.shape(x)
    named = node.input[1] if len(node.input) > 1 else ""
    value = graph.value(named) if named else np.asarray(own.get("axes", ()), np.int64)
    if value is None or shape is None:
        return False
    whole = graph.dtype(x).startswith(("int", "uint"))
    if whole and node.op_type in _OF_REALS:
        raise UsageError(
            f"{graph.origin}: unsupported use of {node.op_type} (node {node_name(node)!r}): "
            "its input is of integers",
            "cast the input to float32 in the network, and the result back",
        )
    axes = [int(axis) % len(shape) for axis in value.reshape(-1)]
    keep = bool(own.get("keepdims", 1))
    if not axes and own.get("noop_with_empty_axes"):
        alone = graph.reshape(x, (1, *shape))
        graph.reduce(node.op_type, alone, [0], keep=False, outputs=node.output)
        return True
    if node.op_type == "ReduceMean" and whole:
        along = axes or list(range(len(shape)))
        total = graph.reduce("ReduceSum", x, along, keep=keep)
        count = np.prod([shape[axis] for axis in along], dtype=np.int64)
        graph.emit("Div", [total, graph.constant(count.astype(graph.dtype(x)))], node.output)
        return True
    if not axes and named:
        graph.emit(node.op_type, [x], node.output, keepdims=int(keep))
        return True
    return False


RULES = dict.fromkeys(
    (
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
    ),
    reduction,
)
"""One rule for all of them."""

"""Avoids division of the least integer by -1 in onnxruntime, which crashes the process on x86."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from toolchain.models.rewrites.graph import Graph


def safe_division(node: onnx.NodeProto, graph: Graph) -> bool:
    """Divide the least integer by 1 where the divisor is -1.

    The quotient is that integer and the rest 0, which is what our code computes; all else stays as it is.
    """
    x, divisor = node.input
    dtype = graph.dtype(divisor)
    stored = graph.value(divisor)
    if dtype not in ("int32", "int64") or (stored is not None and not (stored == -1).any()):
        return False  # smaller integers are divided as wider ones
    least = graph.constant(np.array(np.iinfo(dtype).min, dtype))
    minus_one, two = (graph.constant(np.array(value, dtype)) for value in (-1, 2))
    overflows = graph.emit(
        "And", [graph.emit("Equal", [x, least]), graph.emit("Equal", [divisor, minus_one])]
    )
    # -1 + 2 is 1. The operator sets 7 and 8 have no Where.
    number = graph.emit("Cast", [overflows], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[1] = graph.emit("Add", [divisor, graph.emit("Mul", [number, two])])
    graph.emitted.append(copy)
    return True

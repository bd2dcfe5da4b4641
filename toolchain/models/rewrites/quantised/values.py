"""Converts quantised values to integer-valued floats and back, with the rounding of onnxruntime's kernels.

Sums of products of such floats are exact in float32 below 2 ** 24, whatever their order. That is why two
programs agree on them to the last bit, which no two programs do on sums of scaled floats.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.models.onnx_graph import Names, all_names
from toolchain.models.rewrites.graph import Graph

# Converts int8 activations to uint8 without changing the numbers they represent.
#
# On x86 onnxruntime leaves most operators between int8 activations in floats; between uint8 it computes
# integers. A sum that is rounded after its zero point is added depends on which of the two it is, in six
# values of a million: so the judge gets the file like this, and so do we.

ROUND, REAL = "QuantizeLinear", "DequantizeLinear"


def with_unsigned_activations(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with int8 activations as uint8 and zero points 128 higher.

    The represented numbers stay the same.
    """
    zeros = {
        tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.INT8
    }
    moved = _moved(model.graph, zeros.keys())
    if not moved:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = [value for value in copy.graph.value_info if value.name not in moved]
    del copy.graph.value_info[:]
    copy.graph.value_info.extend(known)
    names = Names(all_names(copy.graph))
    zero_names: dict[str, str] = {}
    for node in copy.graph.node:
        ends = {ROUND: node.output[:1], REAL: node.input[:1]}.get(node.op_type, [])
        if moved.isdisjoint(ends):
            continue
        old = node.input[2]
        if old not in zero_names:
            zero_names[old] = names.free(f"{old}.unsigned")
            copy.graph.initializer.append(as_unsigned(zeros[old], zero_names[old]))
        node.input[2] = zero_names[old]
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
    activations = set()
    for node in graph.node:
        if node.op_type != ROUND or node.output[0] in outputs:
            continue
        behind = readers.get(node.output[0], [])
        constant = all(len(reader.input) > 2 and reader.input[2] in zeros for reader in (node, *behind))
        if constant and all(reader.op_type == REAL for reader in behind):
            activations.add(str(node.output[0]))
    return activations


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
    signed = {
        tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.INT8
    }
    if not any(node.op_type in _WEIGHTS and signed.keys() & set(node.input) for node in model.graph.node):
        return model
    unsigned_names = _unsigned(model.graph)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names = Names(all_names(copy.graph))
    replacements: dict[str, str] = {}

    def unsigned(name: str, like: str) -> str:
        """Return the name of the unsigned tensor; without a name, of a zero point that was left out."""
        if name not in replacements:
            replacements[name] = names.free(f"{name or like}.unsigned")
            copy.graph.initializer.append(as_unsigned(signed.get(name, _ZERO), replacements[name]))
        return replacements[name]

    for node in copy.graph.node:
        activations, weights = _WEIGHTS.get(node.op_type, ((), ()))
        given = {node.input[place] for place in activations if place < len(node.input)}
        if activations and unsigned_names.isdisjoint(given):
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
    unsigned = {tensor.name for tensor in graph.initializer if tensor.data_type == uint8}
    unsigned |= {
        value.name for value in (*graph.input, *graph.value_info) if value.type.tensor_type.elem_type == uint8
    }
    dynamic = [node for node in graph.node if node.op_type == "DynamicQuantizeLinear"]
    return unsigned | {name for node in dynamic for name in (node.output[0], node.output[2])}


FLOAT = onnx.TensorProto.FLOAT


def as_float(graph: Graph, name: str) -> str:
    """Write a cast to float32; return the name of its output."""
    stored = graph.value(name)
    if stored is not None:
        return graph.constant(stored.astype(np.float32), f"{name}.float")
    return name if graph.dtype(name) == "float32" else graph.emit("Cast", [name], to=FLOAT)


def centred(graph: Graph, name: str, zero: str, along: tuple[int, ...] | None = None) -> str:
    """Write integers minus their zero point, in float32.

    Parameters
    ----------
    zero
        Name of the zero point; empty: it is 0.
    along
        The shape that a zero point for each channel gets.
    """
    values, zeros = graph.value(name), graph.value(zero) if zero else np.float32(0)
    shaped = zeros
    if zeros is not None and np.ndim(zeros) == 1 and along:
        shaped = np.reshape(zeros, along)
    if values is not None and shaped is not None:
        return graph.constant(values.astype(np.float32) - np.asarray(shaped, np.float32), f"{name}.float")
    real = as_float(graph, name)
    if zeros is not None and not np.any(zeros):
        return real
    offset = as_float(graph, zero)
    if along and len(graph.shape(zero) or ()) == 1:
        offset = graph.reshape(offset, along)
    return graph.emit("Sub", [real, offset])


def real(graph: Graph, name: str, scale: str, zero: str) -> str:
    """Write the numbers that quantised values represent."""
    return graph.emit("DequantizeLinear", [end for end in (name, scale, zero) if end])


def rounded(graph: Graph, steps: str, zero: str, outputs: list[str]) -> None:
    """Write steps as the nearest integer plus the zero point, clipped to the zero point's type."""
    graph.emit("QuantizeLinear", [steps, graph.constant(np.float32(1)), zero], outputs)


def requantised(graph: Graph, sums: str, factor: str, zero: str, outputs: list[str]) -> None:
    """Write exact sums times a factor, rounded once: onnxruntime's `f32(sum) * f32(xs * ws / ys)`."""
    rounded(graph, graph.emit("Mul", [sums, factor]), zero, outputs)


def apart(graph: Graph, product: str) -> str:
    """Write an operation that keeps compilers from fusing a product with a sum; values do not change.

    Compilers fuse a product and a sum into one instruction, which rounds once instead of twice.
    """
    return graph.emit("Max", [product, graph.constant(np.float32(-(2**31)))])


def zero_of(graph: Graph, zero: str) -> str:
    """Return the name of a zero point; one that is left out is 0 of uint8."""
    return zero or graph.constant(np.uint8(0), "zero")

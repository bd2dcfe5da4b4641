"""Converts int8 weights of integer operators to uint8 without changing the numbers they represent.

On x86 processors without VNNI onnxruntime adds two products of uint8 and int8 in 16 bits, which saturate: its
answer is wrong there. Products of two uint8 are added in 32 bits. Its optimiser does this by itself where it
is asked for exact sums, but files with integer operators are loaded without optimisations.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.models.names import Names
from toolchain.models.rewrites.quantised.unsigned import as_unsigned
from toolchain.models.walk import all_names

# Operator -> place of the activations' zero point among its inputs (None: they are uint8), and places of
# weights with those of their zero points.
_WEIGHTS: dict[str, tuple[int | None, tuple[tuple[int, int], ...]]] = {
    "ConvInteger": (2, ((1, 3),)),
    "DynamicQuantizeLSTM": (None, ((1, 9), (2, 11))),
    "DynamicQuantizeMatMul": (None, ((1, 3),)),
    "MatMulInteger": (2, ((1, 3),)),
    "MatMulIntegerToFloat": (4, ((1, 5),)),
    "QGemm": (2, ((3, 5),)),
    "QLinearConv": (2, ((3, 5),)),
    "QLinearMatMul": (2, ((3, 5),)),
}
_ZERO = numpy_helper.from_array(np.array(0, np.int8))  # a zero point that was left out


def with_unsigned_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with constant int8 weights as uint8 and zero points 128 higher.

    Operators between int8 activations stay: they want int8 weights.
    """
    signed = {each.name: each for each in model.graph.initializer if each.data_type == onnx.TensorProto.INT8}
    if not any(node.op_type in _WEIGHTS and signed.keys() & set(node.input) for node in model.graph.node):
        return model
    uint8 = onnx.TensorProto.UINT8
    zeros = {each.name for each in model.graph.initializer if each.data_type == uint8}
    zeros |= {node.output[2] for node in model.graph.node if node.op_type == "DynamicQuantizeLinear"}
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
        activations, weights = _WEIGHTS.get(node.op_type, (None, ()))
        if activations is not None and not zeros.intersection(node.input[activations : activations + 1]):
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

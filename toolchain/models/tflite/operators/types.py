"""Operators that change how numbers are represented."""

from __future__ import annotations

import numpy as np
from onnx import helper

from toolchain.arrays import Array
from toolchain.models.tflite.call import OperatorCall, Rule
from toolchain.models.tflite.network import Quantisation


def quantise(call: OperatorCall) -> None:
    """Translate QUANTIZE, from floats or from other integers."""
    layout = call.layout()
    if call.output.quantisation is None:
        raise ValueError("its output has no scale")
    call.graph.result(call.output.index, call.graph.real(call.input(0).index, layout), layout)


def dequantise(call: OperatorCall) -> None:
    """Translate DEQUANTIZE; constants, such as weights in float16 or int8, become float32."""
    graph, x, layout = call.graph, call.input(0), call.layout()
    if x.index in graph.constants:
        array = graph.constants[x.index]
        graph.make_constant(call.output.index, x.shape, lambda: _meant(array, x.quantisation))
        return
    real = graph.real(x.index, layout)
    if x.quantisation is None:
        real = graph.emit(
            "Cast", [real], call.output.name, to=helper.np_dtype_to_tensor_dtype(np.dtype("float32"))
        )
    graph.result(call.output.index, real, layout)


def _meant(array: Array, rule: Quantisation | None) -> Array:
    """Return the numbers that stored ones mean, in float32."""
    if rule is None:
        return array.astype(np.float32)
    along = [1] * array.ndim
    if rule.axis is not None:
        along[rule.axis] = -1
    numbers = (array - rule.zero.reshape(along)) * rule.scale.reshape(along)
    return np.asarray(numbers, np.float32)


def cast(call: OperatorCall) -> None:
    """Translate CAST: floats are cut to integers, and integers are taken as they are stored."""
    layout = call.layout()
    stored = call.graph.stored(call.input(0).index, layout)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(call.output.dtype))
    call.graph.define(call.output.index, call.graph.emit("Cast", [stored], call.output.name, to=to), layout)


RULES: dict[str, Rule] = {"CAST": cast, "DEQUANTIZE": dequantise, "QUANTIZE": quantise}

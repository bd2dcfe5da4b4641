"""Means of 8-bit integers, rounded as TensorFlow Lite's kernels round them.

A mean of few values is often half a step between two integers. QuantizeLinear then takes the even one; LiteRT
takes the one farther from zero, and of a MEAN rounds twice, since it multiplies by an integer of 31 bits and
then shifts. Such steps are systematic, and a softmax behind them makes several of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from toolchain.models.tflite.activations import in_integers
from toolchain.models.tflite.call import OperatorCall
from toolchain.models.tflite.graph import OnnxGraph
from toolchain.models.tflite.layout import ChannelOrder
from toolchain.models.tflite.network import Quantisation, TfliteTensor

_BELOW = 1 - 2**-22
"""LiteRT's multiplier is cut off, which keeps products just below a half; float32 would round them to it."""


def in_steps(x: TfliteTensor, result: TfliteTensor) -> tuple[Quantisation, Quantisation] | None:
    """Return how input and result are quantised, if both are so as LiteRT's kernels of int8 have it."""
    rules = x.quantisation, result.quantisation
    if x.dtype != "int8" or result.dtype != "int8" or rules[0] is None or rules[1] is None:
        return None
    return None if rules[0].axis is not None or rules[1].axis is not None else (rules[0], rules[1])


def mean_over(
    call: OperatorCall, rules: tuple[Quantisation, Quantisation], axes: Sequence[int], layout: ChannelOrder
) -> None:
    """Write MEAN over axes, which count in `layout`."""
    graph, x, result = call.graph, call.input(0), call.output
    count = math.prod(x.shape) // math.prod(result.shape)
    factor, power = _multiplier(float(rules[0].scale) / float(rules[1].scale), count)
    name = result.name
    whole = graph.emit("Cast", [graph.stored(x.index, layout)], name, to=TensorProto.INT32)
    keeps = int(bool(call.option("keep_dims", False)))
    total = graph.emit("ReduceSum", [whole, graph.integers(axes)], name, keepdims=keeps)
    middle = graph.constant(np.array(count * int(rules[0].zero), np.int32))
    apart = graph.emit("Sub", [total, middle], name)
    made = graph.emit("Cast", [apart], name, to=TensorProto.FLOAT)
    scaled = graph.emit("Mul", [made, graph.float(factor * 2.0 ** max(power, 0))], name)
    made = graph.emit("Floor", [graph.emit("Add", [scaled, graph.float(0.5)], name)], name)  # halves go up
    if power < 0:
        made = _away(graph, graph.emit("Mul", [made, graph.float(2.0**power)], name), name)
    made = graph.emit("Add", [made, graph.float(float(rules[1].zero))], name)
    _define(call, made, layout)


def mean_of_windows(call: OperatorCall, made: str, count: int) -> None:
    """Write the result of AVERAGE_POOL_2D, whose floats are the means of the integers themselves.

    Parameters
    ----------
    count
        Most values of a window.
    """
    rule = call.output.quantisation
    low, high = (-128.0, 127.0) if rule is None else in_integers(call.bounds(), rule, "int8")
    rounded = _away(call.graph, made, call.output.name, 0.5 + 0.25 / count)  # whatever float32 made of a half
    _define(call, rounded, ChannelOrder.FIRST, low, high)


def _multiplier(ratio: float, count: int) -> tuple[float, int]:
    """Return LiteRT's factor for a sum of `count` values, and the power of two behind it.

    As in tensorflow/lite/kernels/reduce.cc: an integer of 31 bits, shifted as far as the count allows and
    then divided by it.
    """
    mantissa, power = math.frexp(ratio)
    shift = min(count.bit_length() - 1, 32, 31 + power)
    multiplier, rest = divmod(round(mantissa * 2**31) << shift, count)
    return multiplier / 2**31 * (_BELOW if rest else 1.0), power - shift


def _away(graph: OnnxGraph, x: str, name: str, half: float = 0.5) -> str:
    """Round to whole numbers, halves away from zero."""
    raised = graph.emit("Add", [graph.emit("Abs", [x], name), graph.float(half)], name)
    return graph.emit("Mul", [graph.emit("Sign", [x], name), graph.emit("Floor", [raised], name)], name)


def _define(
    call: OperatorCall, made: str, layout: ChannelOrder, low: float = -128.0, high: float = 127.0
) -> None:
    limited = call.graph.emit("Clip", [made, call.graph.float(low), call.graph.float(high)], call.output.name)
    whole = call.graph.emit("Cast", [limited], call.output.name, to=TensorProto.INT8)
    call.graph.define(call.output.index, whole, layout)

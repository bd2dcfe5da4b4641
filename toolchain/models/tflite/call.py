"""An operator with the tensors it reads and writes, for the rules that translate it; padding and means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from toolchain.errors import UsageError
from toolchain.models.tflite.network import (
    FUSED,
    Bounds,
    ChannelOrder,
    Quantisation,
    TfliteOperator,
    TfliteTensor,
    in_integers,
)
from toolchain.models.tflite.onnx_builder import OnnxGraph

# Paddings of windows, as TensorFlow computes them from extents.

SAME, VALID = 0, 1
"""Codes of the schema's enumeration `Padding`."""


def window_padding(padding: int, size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Return the padding before and behind along one dimension.

    With SAME the result has `ceil(size / stride)` elements; an odd element of padding goes behind.

    Raises
    ------
    ValueError
        The padding is unknown, or an extent is not positive.
    """
    if padding not in (SAME, VALID) or min(size, window, stride, dilation) < 1:
        raise ValueError(f"padding {padding}, {window} of {size}, stride {stride}, dilation {dilation}")
    if padding == VALID:
        return 0, 0
    count = -(-size // stride)
    total = max((count - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


@dataclass(frozen=True)
class OperatorCall:
    """An operator of the file, and the graph it is translated into."""

    graph: OnnxGraph
    operator: TfliteOperator

    @property
    def outputs(self) -> list[TfliteTensor]:
        """The tensors that it computes."""
        return [self.graph.tensor(index) for index in self.operator.outputs]

    @property
    def output(self) -> TfliteTensor:
        """The first tensor that it computes."""
        return self.graph.tensor(self.operator.outputs[0])

    @property
    def inputs(self) -> list[TfliteTensor]:
        """The tensors that it reads, without those that are left out."""
        return [self.graph.tensor(index) for index in self.operator.inputs if index is not None]

    def input(self, place: int) -> TfliteTensor:
        """Return the tensor at a place of its inputs.

        Raises
        ------
        ValueError
            It has no such input.
        """
        tensor = self.optional(place)
        if tensor is None:
            raise ValueError(f"input {place} is missing")
        return tensor

    def optional(self, place: int) -> TfliteTensor | None:
        """Return the tensor at a place of its inputs; None if it is left out."""
        given = self.operator.inputs
        index = given[place] if place < len(given) else None
        return None if index is None else self.graph.tensor(index)

    def option(self, name: str, default: Any) -> Any:
        """Return a field of its options; files without options mean the schema's default.

        Raises
        ------
        KeyError
            Its options are those of another kind of operator.
        """
        options = self.operator.options
        return options[name] if options else default

    def numbers(self, place: int, what: str) -> list[int]:
        """Return an input that must be a constant vector of integers; `what` names it in an error."""
        array = self.graph.array(self.input(place).index, what)
        if array.dtype.kind not in "iu":
            raise ValueError(f"{what} of {array.dtype}")
        return [int(number) for number in array.reshape(-1)]

    def bounds(self) -> Bounds:
        """Return the limits of its fused activation.

        Raises
        ------
        UsageError
            It has another activation.
        """
        fused = self.operator.options.get("fused_activation_function", 0)
        if fused not in FUSED:
            raise self.refusal(f"its fused activation function {fused}")
        return FUSED[fused]

    def layout(self) -> ChannelOrder:
        """Return `FIRST` if an operand exists in that layout only and all can have it; else `LAST`."""
        tensors = [tensor for tensor in self.inputs if tensor.index not in self.graph.constants]
        if not all(tensor.rank == 4 for tensor in tensors) or self.output.rank != 4:
            return ChannelOrder.LAST
        layouts = {self.graph.layout_of(tensor.index) for tensor in tensors}
        return ChannelOrder.FIRST if ChannelOrder.FIRST in layouts else ChannelOrder.LAST

    def refusal(self, what: str) -> UsageError:
        """Return the error that something of this operator is not supported."""
        return UsageError(
            f"{self.graph.origin}: {self.operator}: {what} is not supported",
            "convert the network without it; docs/howto/other-peoples-files.md has the table of operators",
        )


Rule = Callable[[OperatorCall], None]
"""Function that emits the ONNX nodes of one TensorFlow Lite operator."""


# Means of 8-bit integers, rounded as TensorFlow Lite's kernels round them.
#
# A mean of few values is often half a step between two integers. QuantizeLinear then takes the even one;
# LiteRT takes the one farther from zero, and of a MEAN rounds twice, since it multiplies by an integer of
# 31 bits and then shifts. Such steps are systematic, and a softmax behind them makes several of each.

_BELOW = 1 - 2**-22
"""LiteRT's multiplier is cut off, which keeps products just below a half; float32 would round them to it."""


def in_steps(x: TfliteTensor, result: TfliteTensor) -> tuple[Quantisation, Quantisation] | None:
    """Return how input and result are quantised if both are int8 with one scale each; else None."""
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
    mean = graph.emit("Cast", [apart], name, to=TensorProto.FLOAT)
    scaled = graph.emit("Mul", [mean, graph.float(factor * 2.0 ** max(power, 0))], name)
    mean = graph.emit("Floor", [graph.emit("Add", [scaled, graph.float(0.5)], name)], name)  # halves go up
    if power < 0:
        mean = _away(graph, graph.emit("Mul", [mean, graph.float(2.0**power)], name), name)
    mean = graph.emit("Add", [mean, graph.float(float(rules[1].zero))], name)
    _define(call, mean, layout)


def mean_of_windows(call: OperatorCall, mean: str, count: int) -> None:
    """Write the result of AVERAGE_POOL_2D, whose floats are the means of the integers themselves.

    Parameters
    ----------
    count
        Most values of a window.
    """
    rule = call.output.quantisation
    low, high = (-128.0, 127.0) if rule is None else in_integers(call.bounds(), rule, "int8")
    rounded = _away(call.graph, mean, call.output.name, 0.5 + 0.25 / count)  # whatever float32 made of a half
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
    call: OperatorCall, result: str, layout: ChannelOrder, low: float = -128.0, high: float = 127.0
) -> None:
    limited = call.graph.emit(
        "Clip", [result, call.graph.float(low), call.graph.float(high)], call.output.name
    )
    whole = call.graph.emit("Cast", [limited], call.output.name, to=TensorProto.INT8)
    call.graph.define(call.output.index, whole, layout)

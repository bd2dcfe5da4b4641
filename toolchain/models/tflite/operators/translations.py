"""The table of TensorFlow Lite's operators, with dense layers, resizes, norms and casts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from toolchain.arrays import Array
from toolchain.models.tflite.call import (
    OperatorCall,
    Rule,
    in_steps,
    mean_of_windows,
    mean_over,
    window_padding,
)
from toolchain.models.tflite.network import ChannelOrder, Quantisation, TfliteTensor, placed
from toolchain.models.tflite.operators import convolutions, indices, moving, pointwise

# Products of matrices.


def dense(call: OperatorCall) -> None:
    """Translate FULLY_CONNECTED; weights are [output, input], all but the input's last dimension are rows."""
    graph, x, weights, bias = call.graph, call.input(0), call.input(1), call.optional(2)
    if call.option("weights_format", 0) != 0:
        raise call.refusal("a layout of weights made for one kind of processor")
    units, depth = weights.shape
    rows = math.prod(x.shape) // depth
    real = graph.real(x.index)
    if x.shape != (rows, depth):
        real = graph.settled(graph.emit("Reshape", [real, graph.integers([rows, depth])], x.name), x)
    constant = weights.index in graph.constants
    inputs = [real, graph.weights(weights.index, (0, 1)) if constant else graph.real(weights.index)]
    if bias is not None:
        inputs.append(graph.bias(bias.index, x, weights))
    output = graph.emit("Gemm", inputs, call.output.name, transB=1)
    if call.output.shape != (rows, units):
        output = graph.settled(output, call.output)
        output = graph.emit("Reshape", [output, graph.integers(call.output.shape)], call.output.name)
    graph.result(call.output.index, output, bounds=call.bounds())


def products(call: OperatorCall) -> None:
    """Translate BATCH_MATMUL."""
    left = _turned(call, call.input(0), turn=bool(call.option("adj_x", False)))
    right = _turned(call, call.input(1), turn=bool(call.option("adj_y", False)))
    call.graph.result(call.output.index, call.graph.emit("MatMul", [left, right], call.output.name))


def _turned(call: OperatorCall, tensor: TfliteTensor, *, turn: bool) -> str:
    graph, order = call.graph, list(range(tensor.rank))
    if turn:
        order[-2:] = order[-1], order[-2]
    if tensor.index in graph.constants:
        return graph.weights(tensor.index, order)
    real = graph.real(tensor.index)
    return graph.settled(graph.emit("Transpose", [real], tensor.name, perm=order), tensor) if turn else real


PRODUCTS_RULES: dict[str, Rule] = {"BATCH_MATMUL": products, "FULLY_CONNECTED": dense}


# Resizing of images.

MOST_ROWS = 1 << 16
"""Most rows that one resize selects by a constant index."""


def _linear(call: OperatorCall) -> None:
    centres, corners = _where(call)
    _emit(call, "linear", "align_corners" if corners else "half_pixel" if centres else "asymmetric")


def _nearest(call: OperatorCall) -> None:
    graph, x = call.graph, call.input(0)
    centres, corners = _where(call)
    height, width = call.numbers(1, "the size of its output")
    if min(height, width) < 1:
        raise ValueError(f"an output of {height} x {width}")
    if max(height, width) > MOST_ROWS:
        raise call.refusal(f"an output of {height} x {width}")
    ends = [(x.shape[1], height), (x.shape[2], width)]
    rows, columns = (_picked(*end, corners=corners, centres=centres) for end in ends)
    if _repeats(rows, *ends[0]) and _repeats(columns, *ends[1]):
        _emit(call, "nearest", "asymmetric")  # for which there is faster code
        return
    tall = graph.emit("Gather", [graph.real(x.index, ChannelOrder.FIRST), graph.constant(rows)], axis=2)
    output = graph.emit("Gather", [tall, graph.constant(columns)], call.output.name, axis=3)
    graph.result(call.output.index, output, ChannelOrder.FIRST)


def _where(call: OperatorCall) -> tuple[bool, bool]:
    """Return the options half_pixel_centers and align_corners of a resize."""
    centres = call.option("half_pixel_centers", False)
    corners = call.option("align_corners", False)
    if centres and corners:
        raise ValueError("align_corners and half_pixel_centers")
    return bool(centres), bool(corners)


def _emit(call: OperatorCall, mode: str, at: str) -> None:
    graph, x = call.graph, call.input(0)
    height, width = call.numbers(1, "the size of its output")
    output = graph.emit(
        "Resize",
        [
            graph.real(x.index, ChannelOrder.FIRST),
            "",
            "",
            graph.integers([x.shape[0], x.shape[3], height, width]),
        ],
        call.output.name,
        mode=mode,
        coordinate_transformation_mode=at,
        nearest_mode="floor",
    )
    graph.result(call.output.index, output, ChannelOrder.FIRST)


def _picked(old: int, new: int, *, corners: bool, centres: bool) -> Array:
    """Return the rows that TensorFlow Lite takes for the nearest ones, in its arithmetic: float32.

    Where a row begins exactly at another one's end, rounding says which of both it takes: the middle one of
    41 rows made of 2 is row 0, that of 43 row 1. No mode of ONNX says so.
    """
    one = np.float32(1)
    scale = (old - one) / (new - one) if corners and new > 1 else old * one / new
    where = (np.arange(new, dtype=np.float32) + np.float32(0.5 * centres)) * scale
    rounded = np.floor(where.astype(float) + 0.5) if corners else np.floor(where)
    return np.asarray(rounded.clip(0, old - 1), np.int64)


def _repeats(picked: Array, old: int, new: int) -> bool:
    """Whether nearest-neighbour resizing repeats every row equally often, in order."""
    return new % old == 0 and bool((picked == np.arange(new) // (new // old)).all())


RESAMPLING_RULES: dict[str, Rule] = {
    "RESIZE_BILINEAR": _linear,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
}


# Reductions over dimensions, and what is divided by one.


def _reduced(kind: str) -> Rule:
    def rule(call: OperatorCall) -> None:
        graph, x = call.graph, call.input(0)
        axes = sorted({placed(axis, x.rank, ChannelOrder.LAST) for axis in call.numbers(1, "axes")})
        keeps = call.option("keep_dims", False)
        spatial = x.rank == 4 and axes == [1, 2]
        layout = graph.layout_of(x.index) if spatial or keeps else ChannelOrder.LAST
        result = call.output
        where = sorted(placed(axis, x.rank, layout) for axis in axes)
        rules = in_steps(x, result) if kind == "Mean" else None
        if rules:
            mean_over(call, rules, where, layout)
            return
        real = graph.real(x.index, layout)
        if (
            kind == "Mean" and x.rank == 4 and where == [2, 3]
        ):  # of NCHW; or of a tensor that is so in the file
            output = graph.emit("GlobalAveragePool", [real], result.name)
            if not keeps:
                output = graph.settled(output, result)
                output = graph.emit("Reshape", [output, graph.integers(result.shape)], result.name)
        elif kind == "Sum":  # the only one of this operator set with axes as an input
            output = graph.emit("ReduceSum", [real, graph.integers(where)], result.name, keepdims=int(keeps))
        else:
            output = graph.emit(f"Reduce{kind}", [real], result.name, axes=where, keepdims=int(keeps))
        graph.result(result.index, output, layout)

    return rule


def _place_of(kind: str) -> Rule:
    def rule(call: OperatorCall) -> None:
        graph, x = call.graph, call.input(0)
        (axis,) = call.numbers(1, "an axis")
        output = graph.emit(kind, [graph.real(x.index)], call.output.name, axis=axis, keepdims=0)
        if call.output.dtype != "int64":
            output = graph.emit("Cast", [output], call.output.name, to=_INT32)
        graph.define(call.output.index, output)

    return rule


def softmax(call: OperatorCall) -> None:
    """Translate SOFTMAX, along the last dimension."""
    graph = call.graph
    real, beta = graph.real(call.input(0).index), float(call.option("beta", 1.0))
    if not math.isfinite(beta):
        raise ValueError(f"beta {beta}")
    if beta != 1.0:
        real = graph.emit("Mul", [real, graph.float(beta)], call.output.name)
    graph.result(call.output.index, graph.emit("Softmax", [real], call.output.name, axis=-1))


def log_softmax(call: OperatorCall) -> None:
    """Translate LOG_SOFTMAX, along the last dimension."""
    real = call.graph.real(call.input(0).index)
    call.graph.result(call.output.index, call.graph.emit("LogSoftmax", [real], call.output.name, axis=-1))


def unit_length(call: OperatorCall) -> None:
    """Translate L2_NORMALIZATION, along the last dimension; a vector of less than 1e-6 is divided by that."""
    graph = call.graph
    real = graph.real(call.input(0).index)
    length = graph.emit("ReduceL2", [real], call.output.name, axes=[-1], keepdims=1)
    divisor = graph.emit("Max", [length, graph.float(1e-6)], call.output.name)
    graph.result(
        call.output.index, graph.emit("Div", [real, divisor], call.output.name), bounds=call.bounds()
    )


_INT32 = 6  # onnx.TensorProto.INT32

REDUCTIONS_RULES: dict[str, Rule] = {
    "ARG_MAX": _place_of("ArgMax"),
    "ARG_MIN": _place_of("ArgMin"),
    "L2_NORMALIZATION": unit_length,
    "LOG_SOFTMAX": log_softmax,
    "MEAN": _reduced("Mean"),
    "REDUCE_MAX": _reduced("Max"),
    "REDUCE_MIN": _reduced("Min"),
    "REDUCE_PROD": _reduced("Prod"),
    "SOFTMAX": softmax,
    "SUM": _reduced("Sum"),
}


# Operators that change how numbers are represented.


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
    """Return the real numbers that stored integers represent, in float32."""
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


TYPES_RULES: dict[str, Rule] = {"CAST": cast, "DEQUANTIZE": dequantise, "QUANTIZE": quantise}


# Pools, and whatever else looks at windows without weights.


def _pool(kind: str, **attributes: Any) -> Rule:
    def rule(call: OperatorCall) -> None:
        x, graph = call.input(0), call.graph
        windows = [call.option("filter_height", 0), call.option("filter_width", 0)]
        strides = [call.option("stride_h", 0), call.option("stride_w", 0)]
        pads = [
            window_padding(call.option("padding", 0), size, window, stride)
            for size, window, stride in zip(x.shape[1:3], windows, strides, strict=True)
        ]
        rules = in_steps(x, call.output) if kind == "AveragePool" else None
        whole = rules is not None and rules[0].equals(rules[1])
        given = graph.real(x.index, ChannelOrder.FIRST)
        if whole:
            stored = graph.stored(x.index, ChannelOrder.FIRST)
            given = graph.emit("Cast", [stored], call.output.name, to=TensorProto.FLOAT)
        output = graph.emit(
            kind,
            [given],
            call.output.name,
            kernel_shape=windows,
            strides=strides,
            pads=[before for before, _ in pads] + [behind for _, behind in pads],
            **attributes,
        )
        if whole:
            mean_of_windows(call, output, math.prod(windows))
        else:
            graph.result(call.output.index, output, ChannelOrder.FIRST, call.bounds())

    return rule


def _blocks(kind: str) -> Rule:
    def rule(call: OperatorCall) -> None:
        graph = call.graph
        real = graph.real(call.input(0).index, ChannelOrder.FIRST)
        output = graph.emit(kind, [real], call.output.name, blocksize=call.option("block_size", 0))
        graph.result(call.output.index, output, ChannelOrder.FIRST)

    return rule


POOLS_RULES: dict[str, Rule] = {
    "AVERAGE_POOL_2D": _pool("AveragePool", count_include_pad=0),
    "DEPTH_TO_SPACE": _blocks("DepthToSpace"),
    "MAX_POOL_2D": _pool("MaxPool"),
    "SPACE_TO_DEPTH": _blocks("SpaceToDepth"),
}


RULES: dict[str, Rule] = {
    **convolutions.RULES,
    **indices.RULES,
    **moving.RULES,
    **pointwise.RULES,
    **POOLS_RULES,
    **PRODUCTS_RULES,
    **REDUCTIONS_RULES,
    **RESAMPLING_RULES,
    **TYPES_RULES,
}
"""Operator, by the schema's name -> the rule that translates it."""

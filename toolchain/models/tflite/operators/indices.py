"""Operators that take or put values by indices, and that compare, count or cumulate along a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper

from toolchain.models.tflite.call import OperatorCall, Rule
from toolchain.models.tflite.network import ChannelOrder, placed
from toolchain.models.tflite.onnx_builder import outputs_of


def reverse(call: OperatorCall) -> None:
    """Translate REVERSE_V2: values from the last to the first along its axes."""
    graph, x = call.graph, call.input(0)
    axes = [placed(axis, x.rank, ChannelOrder.LAST) for axis in call.numbers(1, "axes")]
    parts = ([-1] * len(axes), [-(2**31)] * len(axes), axes, [-1] * len(axes))
    inputs = [graph.real(x.index), *(graph.integers(part) for part in parts)]
    graph.result(call.output.index, graph.emit("Slice", inputs, call.output.name))


def reverse_beginnings(call: OperatorCall) -> None:
    """Translate REVERSE_SEQUENCE: the first values of each sequence, whose lengths are an input."""
    graph, x = call.graph, call.input(0)
    time, batch = call.option("seq_dim", 0), call.option("batch_dim", 0)
    if {time, batch} != {0, 1}:
        raise call.refusal(f"sequences along dimension {time} of batches along dimension {batch}")
    lengths = graph.emit("Cast", [graph.stored(call.input(1).index)], to=TensorProto.INT64)
    result = graph.emit(
        "ReverseSequence", [graph.real(x.index), lengths], call.output.name, time_axis=time, batch_axis=batch
    )
    graph.result(call.output.index, result)


def gather_places(call: OperatorCall) -> None:
    """Translate GATHER_ND."""
    graph = call.graph
    places = graph.emit("Cast", [graph.stored(call.input(1).index)], to=TensorProto.INT64)
    graph.result(
        call.output.index,
        graph.emit("GatherND", [graph.real(call.input(0).index), places], call.output.name),
    )


def scatter(call: OperatorCall) -> None:
    """Translate SCATTER_ND: write values into zeros by index; values at equal indices are added."""
    graph, result = call.graph, call.output
    if result.quantisation is not None:
        raise call.refusal("quantised values")
    places = graph.emit("Cast", [graph.stored(call.input(0).index)], to=TensorProto.INT64)
    zeros = _filled(call, 0)
    sums = graph.emit(
        "ScatterND", [zeros, places, graph.real(call.input(1).index)], result.name, reduction="add"
    )
    graph.result(result.index, sums)


def _filled(call: OperatorCall, value: float) -> str:
    """Return the name of a tensor of the result's shape and type, which has one value."""
    graph, result = call.graph, call.output
    one = graph.constant(np.full((1,) * result.rank, value, result.dtype))
    return graph.emit("Expand", [one, graph.integers(result.shape)], result.name)


def one_hot(call: OperatorCall) -> None:
    """Translate ONE_HOT: the on-value at each index, the off-value elsewhere."""
    graph = call.graph
    (depth,) = call.numbers(1, "a depth")
    on, off = (graph.real(call.input(place).index) for place in (2, 3))
    pair = graph.emit(
        "Concat", [graph.emit("Reshape", [number, graph.integers([1])]) for number in (off, on)], axis=0
    )
    index = graph.emit("Cast", [graph.stored(call.input(0).index)], to=TensorProto.INT64)
    # Of indices below 0 ONNX counts from the end, TensorFlow Lite takes none: those are moved beyond the end.
    below, beyond = (graph.constant(np.array(value)) for value in (0, depth))
    index = graph.emit("Where", [graph.emit("Less", [index, below]), beyond, index])
    inputs = [index, graph.integers([depth]), pair]
    result = graph.emit("OneHot", inputs, call.output.name, axis=call.option("axis", -1))
    graph.result(call.output.index, result)


def largest(call: OperatorCall) -> None:
    """Translate TOPK_V2: the largest values along the last dimension, and their places."""
    graph, values, places = call.graph, *call.outputs
    inputs = [graph.real(call.input(0).index), graph.integers(call.numbers(1, "a number of values"))]
    first = graph.emit("TopK", inputs, values.name, 2, axis=-1)
    graph.result(values.index, first)
    whole = outputs_of(first, 2)[1]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(places.dtype))
    graph.define(places.index, graph.emit("Cast", [whole], places.name, to=kind))


def cumulated(call: OperatorCall) -> None:
    """Translate CUMSUM."""
    graph = call.graph
    (axis,) = call.numbers(1, "an axis")
    options = {name: int(call.option(name, False)) for name in ("exclusive", "reverse")}
    inputs = [graph.real(call.input(0).index), graph.constant(np.array(axis))]
    graph.result(call.output.index, graph.emit("CumSum", inputs, call.output.name, **options))


def _segments(kind: str, begin: Callable[[str], float]) -> Rule:
    """Return the rule of an operator that combines the rows of each segment.

    Parameters
    ----------
    kind
        `ScatterND`'s reduction.
    begin
        Of a numpy type: the value of a segment without rows.
    """

    def rule(call: OperatorCall) -> None:
        graph, result = call.graph, call.output
        ids = graph.emit("Cast", [graph.stored(call.input(1).index)], to=TensorProto.INT64)
        places = graph.emit("Unsqueeze", [ids, graph.integers([call.input(1).rank])])
        inputs = [_filled(call, begin(result.dtype)), places, graph.real(call.input(0).index)]
        graph.result(result.index, graph.emit("ScatterND", inputs, result.name, reduction=kind))

    return rule


def _least(dtype: str) -> float:
    return float(np.finfo(dtype).min) if dtype.startswith("float") else int(np.iinfo(dtype).min)


def _greatest(dtype: str) -> float:
    return float(np.finfo(dtype).max) if dtype.startswith("float") else int(np.iinfo(dtype).max)


def any_of(call: OperatorCall) -> None:
    """Translate REDUCE_ANY and REDUCE_ALL, as the greatest or the least of 0 and 1."""
    graph, x = call.graph, call.input(0)
    kind = "ReduceMax" if call.operator.name == "REDUCE_ANY" else "ReduceMin"
    axes = sorted({placed(axis, x.rank, ChannelOrder.LAST) for axis in call.numbers(1, "axes")})
    whole = graph.emit("Cast", [graph.real(x.index)], to=TensorProto.INT32)
    keeps = int(bool(call.option("keep_dims", False)))
    result = graph.emit(kind, [whole], call.output.name, axes=axes, keepdims=keeps)
    graph.define(call.output.index, graph.emit("Cast", [result], call.output.name, to=TensorProto.BOOL))


def blocks_to_batch(call: OperatorCall) -> None:
    """Translate SPACE_TO_BATCH_ND: each place of a block becomes a batch of its own."""
    graph, x = call.graph, call.input(0)
    block, pads = call.numbers(1, "a block"), call.numbers(2, "paddings")
    rest = x.shape[1 + len(block) :]
    before, behind = pads[::2], pads[1::2]
    ends = [0, *before, *[0] * len(rest), 0, *behind, *[0] * len(rest)]
    padded = graph.emit("Pad", [graph.real(x.index), graph.integers(ends)])
    extents = [size + a + b for size, a, b in zip(x.shape[1:], before, behind, strict=False)]
    split = [part for size, step in zip(extents, block, strict=True) for part in (size // step, step)]
    apart = graph.emit("Reshape", [padded, graph.integers([x.shape[0], *split, *rest])])
    many = len(block)
    order = [2 + 2 * i for i in range(many)] + [0] + [1 + 2 * i for i in range(many)]
    order += [1 + 2 * many + i for i in range(len(rest))]
    turned = graph.emit("Transpose", [apart], perm=order)
    result = graph.emit("Reshape", [turned, graph.integers(call.output.shape)], call.output.name)
    graph.result(call.output.index, result)


def batch_to_blocks(call: OperatorCall) -> None:
    """Translate BATCH_TO_SPACE_ND, the inverse of SPACE_TO_BATCH_ND; crops cut the borders off."""
    graph, x = call.graph, call.input(0)
    block, crops = call.numbers(1, "a block"), call.numbers(2, "crops")
    many, rest = len(block), list(x.shape[1 + len(block) :])
    count = x.shape[0] // math.prod(block)
    middle = list(x.shape[1 : 1 + many])
    apart = graph.emit(
        "Reshape", [graph.real(x.index), graph.integers([*block, count, *middle, *rest])], call.output.name
    )
    order = [many] + [place for i in range(many) for place in (many + 1 + i, i)]
    order += [2 * many + 1 + i for i in range(len(rest))]
    turned = graph.emit("Transpose", [apart], perm=order)
    whole = [size * step for size, step in zip(middle, block, strict=True)]
    spread = graph.emit("Reshape", [turned, graph.integers([count, *whole, *rest])])
    starts, ends = crops[::2], [size - cut for size, cut in zip(whole, crops[1::2], strict=True)]
    parts = (starts, ends, list(range(1, many + 1)))
    cut = graph.emit("Slice", [spread, *(graph.integers(part) for part in parts)], call.output.name)
    graph.result(call.output.index, cut)


RULES: dict[str, Rule] = {
    "BATCH_TO_SPACE_ND": batch_to_blocks,
    "CUMSUM": cumulated,
    "GATHER_ND": gather_places,
    "ONE_HOT": one_hot,
    "REDUCE_ALL": any_of,
    "REDUCE_ANY": any_of,
    "REVERSE_SEQUENCE": reverse_beginnings,
    "REVERSE_V2": reverse,
    "SCATTER_ND": scatter,
    "SEGMENT_SUM": _segments("add", lambda _dtype: 0),
    "SPACE_TO_BATCH_ND": blocks_to_batch,
    "TOPK_V2": largest,
    "UNSORTED_SEGMENT_MAX": _segments("max", _least),
    "UNSORTED_SEGMENT_MIN": _segments("min", _greatest),
    "UNSORTED_SEGMENT_PROD": _segments("mul", lambda _dtype: 1),
    "UNSORTED_SEGMENT_SUM": _segments("add", lambda _dtype: 0),
}

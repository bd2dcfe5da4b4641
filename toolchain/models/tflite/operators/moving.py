"""Operators that move values, all of them or parts, without computing anything."""

from __future__ import annotations

import math

import numpy as np

from toolchain.models.tflite.call import OperatorCall, Rule
from toolchain.models.tflite.network import (
    TO_LAST,
    ChannelOrder,
    Quantisation,
    TfliteTensor,
    arranged,
    placed,
)
from toolchain.models.tflite.onnx_builder import outputs_of


def reshape(call: OperatorCall) -> None:
    """Translate RESHAPE, SQUEEZE, EXPAND_DIMS: the same values in the declared shape."""
    graph, x, result = call.graph, call.input(0), call.output
    if math.prod(x.shape) != math.prod(result.shape):
        raise ValueError(f"shape {list(x.shape)} cannot become {list(result.shape)}")
    output = graph.emit("Reshape", [graph.real(x.index), graph.integers(result.shape)], result.name)
    graph.result(result.index, output)


def transpose(call: OperatorCall) -> None:
    """Translate TRANSPOSE; one that only changes the layout adds no node."""
    graph, x, result = call.graph, call.input(0), call.output
    order = call.numbers(1, "an order of dimensions")
    if sorted(order) != list(range(x.rank)):
        raise ValueError(f"order {order}")
    layout = graph.layout_of(x.index)
    if x.rank == 4:
        same = is_same(x.quantisation, result.quantisation)
        for target in ChannelOrder:  # dimension i of the target is dimension step[i] of what there is
            step = [TO_LAST[axis] for axis in order] if layout is ChannelOrder.FIRST else order
            step = arranged(step, target)
            if step == [0, 1, 2, 3] and same:
                graph.define(result.index, graph.stored(x.index, layout), target)
                return
        order = [TO_LAST[axis] for axis in order] if layout is ChannelOrder.FIRST else order
    output = graph.emit("Transpose", [graph.real(x.index, layout)], result.name, perm=order)
    graph.result(result.index, output)


def is_same(one: Quantisation | None, other: Quantisation | None) -> bool:
    """Whether two tensors represent numbers alike."""
    return one is other is None if one is None or other is None else one.equals(other)


def concatenation(call: OperatorCall) -> None:
    """Translate CONCATENATION; quantised inputs may have other scales than the result."""
    graph, rank = call.graph, call.output.rank
    layout = call.layout()
    axis = placed(call.option("axis", 0), rank, layout)
    inputs = [graph.real(tensor.index, layout) for tensor in call.inputs]
    output = graph.emit("Concat", inputs, call.output.name, axis=axis)
    graph.result(call.output.index, output, layout, call.bounds())


def pad(call: OperatorCall) -> None:
    """Translate PAD, and PADV2, whose third input is the padding value."""
    graph, x, value = call.graph, call.input(0), call.optional(2)
    layout, numbers = call.layout(), _paddings(call)
    inputs = [graph.real(x.index, layout), graph.integers(_pads(numbers, layout))]
    if value is not None:
        inputs.append(_around(call, value))
    elif (
        x.rank == 4
        and not any((*numbers[0], *numbers[3]))
        and is_same(x.quantisation, call.output.quantisation)
    ):
        graph.zero_padded[call.output.index] = (x, numbers[1:3])
    graph.result(call.output.index, graph.emit("Pad", inputs, call.output.name), layout)


def mirror_pad(call: OperatorCall) -> None:
    """Translate MIRROR_PAD that leaves the border itself out (REFLECT)."""
    if call.option("mode", 0) != 0:
        raise call.refusal("SYMMETRIC padding")
    graph, layout = call.graph, call.layout()
    inputs = [graph.real(call.input(0).index, layout), graph.integers(_pads(_paddings(call), layout))]
    graph.result(call.output.index, graph.emit("Pad", inputs, call.output.name, mode="reflect"), layout)


def _paddings(call: OperatorCall) -> list[tuple[int, int]]:
    """Return the numbers before and behind each dimension."""
    x, numbers = call.input(0), call.numbers(1, "paddings")
    if len(numbers) != 2 * x.rank or min(numbers, default=0) < 0:
        raise ValueError(f"paddings {numbers}")
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    _check_extents(call, [sum(pair) + extent for pair, extent in zip(pairs, x.shape, strict=True)])
    return pairs


def _check_extents(call: OperatorCall, extents: list[int]) -> None:
    """Check that a result has its declared shape, before a larger one is computed."""
    if extents != list(call.output.shape):
        raise ValueError(f"a result {extents} where {list(call.output.shape)} is declared")


def _pads(numbers: list[tuple[int, int]], layout: ChannelOrder) -> list[int]:
    """Return paddings in ONNX's order: those before all dimensions, then those behind."""
    before, behind = ([number[end] for number in numbers] for end in (0, 1))
    return [*arranged(before, layout), *arranged(behind, layout)]


def _around(call: OperatorCall, tensor: TfliteTensor) -> str:
    """Return the name of the real number that a constant of one element represents."""
    stored = call.graph.array(tensor.index, "the number around").reshape(())
    rule = tensor.quantisation
    if rule is None:
        return call.graph.constant(stored)
    return call.graph.float(float((stored - rule.zero) * rule.scale))


def _cut(call: OperatorCall, starts: list[int], ends: list[int], steps: list[int]) -> None:
    graph, x, result = call.graph, call.input(0), call.output
    extents = [len(range(*cut)) for cut in zip(starts, ends, steps, strict=True)]
    if min(extents, default=1) < 1 or math.prod(extents) != math.prod(result.shape):
        raise ValueError(f"a part {extents} where {list(result.shape)} is declared")
    behind = [end if end >= 0 else -size - 1 for end, size in zip(ends, x.shape, strict=True)]
    whole = list(range(x.rank))
    output = graph.emit(
        "Slice",
        [graph.real(x.index), *(graph.integers(numbers) for numbers in (starts, behind, whole, steps))],
        result.name,
    )
    if extents != list(result.shape):
        output = graph.emit("Reshape", [output, graph.integers(result.shape)], result.name)
    graph.result(result.index, output)


def part(call: OperatorCall) -> None:
    """Translate SLICE; a size of -1 goes to the end."""
    x = call.input(0)
    starts, sizes = call.numbers(1, "a beginning"), call.numbers(2, "a size")
    ends = [
        extent if size == -1 else start + size
        for start, size, extent in zip(starts, sizes, x.shape, strict=True)
    ]
    if any(not 0 <= start < end <= extent for start, end, extent in zip(starts, ends, x.shape, strict=True)):
        raise ValueError(f"from {starts} to {ends} of {list(x.shape)}")
    _cut(call, starts, ends, [1] * x.rank)


def strided_part(call: OperatorCall) -> None:
    """Translate STRIDED_SLICE, with the meaning of Python's slices; bit i of a mask is for dimension i."""
    x = call.input(0)
    for mask in ("ellipsis_mask", "new_axis_mask", "offset"):
        if call.option(mask, 0):
            raise call.refusal(mask)
    first, last, steps = (call.numbers(place, "a part") for place in (1, 2, 3))
    free, open_end = call.option("begin_mask", 0), call.option("end_mask", 0)
    single = call.option("shrink_axis_mask", 0)
    starts, ends, strides = [], [], []
    for axis, size in enumerate(x.shape):
        if axis >= len(first):
            piece = slice(None)
        elif single >> axis & 1:
            start = 0 if free >> axis & 1 else range(size)[first[axis]]
            piece = slice(start, start + 1)
        else:
            start, end = first[axis], last[axis]
            piece = slice(
                None if free >> axis & 1 else start, None if open_end >> axis & 1 else end, steps[axis]
            )
        start, end, step = piece.indices(size)
        starts.append(start)
        ends.append(end)
        strides.append(step)
    _cut(call, starts, ends, strides)


def split(call: OperatorCall) -> None:
    """Translate SPLIT, whose first input is the axis."""
    (axis,) = call.numbers(0, "an axis")
    _parts(call, 1, axis)


def split_in_sizes(call: OperatorCall) -> None:
    """Translate SPLIT_V, whose third input is the axis; the declared shapes have the sizes."""
    (axis,) = call.numbers(2, "an axis")
    _parts(call, 0, axis)


def _parts(call: OperatorCall, place: int, axis: int) -> None:
    graph, x, results = call.graph, call.input(place), call.outputs
    layout = graph.layout_of(x.index)
    where = placed(axis, x.rank, layout)
    sizes = [result.shape[axis % x.rank] for result in results]
    if sum(sizes) != x.shape[axis % x.rank]:
        raise ValueError(f"parts {sizes} of {list(x.shape)}")
    inputs = [graph.real(x.index, layout), graph.integers(sizes)]
    first = graph.emit("Split", inputs, results[0].name, len(results), axis=where)
    for result, name in zip(results, outputs_of(first, len(results)), strict=True):
        graph.result(result.index, name, layout)


def pack(call: OperatorCall) -> None:
    """Translate PACK: tensors along a new dimension."""
    graph, result = call.graph, call.output
    axis = placed(call.option("axis", 0), result.rank, ChannelOrder.LAST)
    inputs = [
        graph.emit("Unsqueeze", [graph.real(tensor.index), graph.integers([axis])], tensor.name)
        for tensor in call.inputs
    ]
    graph.result(result.index, graph.emit("Concat", inputs, result.name, axis=axis))


def unpack(call: OperatorCall) -> None:
    """Translate UNPACK: a tensor for each index of a dimension."""
    graph, x, results = call.graph, call.input(0), call.outputs
    axis = placed(call.option("axis", 0), x.rank, ChannelOrder.LAST)
    if len(results) != x.shape[axis]:
        raise ValueError(f"it makes {len(results)} of {list(x.shape)}")
    inputs = [graph.real(x.index), graph.integers([1] * len(results))]
    first = graph.emit("Split", inputs, x.name, len(results), axis=axis)
    for result, name in zip(results, outputs_of(first, len(results)), strict=True):
        graph.result(result.index, graph.emit("Squeeze", [name, graph.integers([axis])], result.name))


def gather(call: OperatorCall) -> None:
    """Translate GATHER along one dimension."""
    if call.option("batch_dims", 0):
        raise call.refusal("batch_dims")
    graph, x = call.graph, call.input(0)
    axis = placed(call.option("axis", 0), x.rank, ChannelOrder.LAST)
    inputs = [graph.real(x.index), graph.stored(call.input(1).index)]
    graph.result(call.output.index, graph.emit("Gather", inputs, call.output.name, axis=axis))


def looked_up(call: OperatorCall) -> None:
    """Translate EMBEDDING_LOOKUP: rows of a table, by an input of indices."""
    graph = call.graph
    inputs = [graph.real(call.input(1).index), graph.stored(call.input(0).index)]
    graph.result(call.output.index, graph.emit("Gather", inputs, call.output.name, axis=0))


def tile(call: OperatorCall) -> None:
    """Translate TILE."""
    graph, counts = call.graph, call.numbers(1, "numbers of copies")
    x = call.input(0)
    if len(counts) != x.rank or min(counts) < 1:
        raise ValueError(f"copies {counts}")
    _check_extents(call, [count * extent for count, extent in zip(counts, x.shape, strict=True)])
    inputs = [graph.real(x.index), graph.integers(counts)]
    graph.result(call.output.index, graph.emit("Tile", inputs, call.output.name))


def broadcast(call: OperatorCall) -> None:
    """Translate BROADCAST_TO, to the declared shape."""
    graph = call.graph
    inputs = [graph.real(call.input(0).index), graph.integers(call.output.shape)]
    graph.result(call.output.index, graph.emit("Expand", inputs, call.output.name))


def shape_of(call: OperatorCall) -> None:
    """Translate SHAPE to a constant: all shapes are known."""
    x, result = call.input(0), call.output
    call.graph.make_constant(result.index, [x.rank], lambda: np.array(x.shape, result.dtype))


def filled(call: OperatorCall) -> None:
    """Translate FILL and ZEROS_LIKE: one value in the declared shape."""
    graph, result = call.graph, call.output
    if call.operator.name == "FILL":
        value = graph.real(call.input(1).index)
    else:
        value = graph.constant(np.zeros((), result.dtype))
    output = graph.emit("Expand", [value, graph.integers(result.shape)], result.name)
    graph.result(result.index, output)


def rank_of(call: OperatorCall) -> None:
    """Translate RANK to a constant."""
    x, result = call.input(0), call.output
    call.graph.make_constant(result.index, [], lambda: np.array(x.rank, result.dtype))


def counted(call: OperatorCall) -> None:
    """Translate RANGE of constants to a constant."""
    ends = [call.graph.array(call.input(place).index, "a range").reshape(()).item() for place in range(3)]
    result = call.output
    call.graph.make_constant(
        result.index, result.shape, lambda: np.arange(*ends, dtype=np.dtype(result.dtype))
    )


def whole(call: OperatorCall) -> None:
    """Translate DENSIFY, whose input the reader has written out with its zeros."""
    x, result = call.input(0), call.output
    array = call.graph.array(x.index, "sparse weights")
    call.graph.make_constant(result.index, x.shape, lambda: array)


RULES: dict[str, Rule] = {
    "DENSIFY": whole,
    "FILL": filled,
    "RANGE": counted,
    "RANK": rank_of,
    "ZEROS_LIKE": filled,
    "BROADCAST_TO": broadcast,
    "CONCATENATION": concatenation,
    "EMBEDDING_LOOKUP": looked_up,
    "EXPAND_DIMS": reshape,
    "GATHER": gather,
    "MIRROR_PAD": mirror_pad,
    "PACK": pack,
    "PAD": pad,
    "PADV2": pad,
    "RESHAPE": reshape,
    "SHAPE": shape_of,
    "SLICE": part,
    "SPLIT": split,
    "SPLIT_V": split_in_sizes,
    "SQUEEZE": reshape,
    "STRIDED_SLICE": strided_part,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
}

"""Converters to Relax that replace TVM's own; they do what a rewrite in ONNX cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.ir.expr import GenericConst

from toolchain.arrays import Array
from toolchain.models.bounds import DIVISOR, INDICES
from toolchain.models.importing.arithmetic import ARITHMETIC
from toolchain.models.quantising.shift_exponents import HIGH
from toolchain.models.quantising.shift_graph import PLAIN, ROUND, SUMMED
from toolchain.models.recurrent.dynamic import CELLS, ConvertDynamic
from toolchain.tvm_compat import Converter

# Converters of dynamic rounding, and of what `quantising/shift_graph.py` writes.


def _convolution(inputs: list[relax.Expr], attributes: dict[str, Any]) -> relax.Expr:
    """Convert the integer convolution of `shift_graph`: 32-bit sums, shifted right and clipped."""
    x, weight, bias, right, low, high, *summed = inputs
    sums = relax.op.nn.conv2d(
        x, weight, strides=list(attributes["strides"]), padding=list(attributes["pads"]), out_dtype="int32"
    )
    if summed:
        residual, left = summed
        sums = relax.op.add(sums, relax.op.left_shift(relax.op.astype(residual, "int32"), left))
    steps = relax.op.right_shift(relax.op.add(sums, bias), right)
    ends = [int(end.value.numpy()) for end in (low, high)]
    return relax.op.astype(relax.op.clip(steps, *ends), "int8")


def _rounded(inputs: list[relax.Expr], _attributes: dict[str, Any]) -> relax.Expr:
    """Convert rounding to the nearest step, halves upwards, clipped to 8 bits."""
    x, steps = inputs
    more = relax.op.add(relax.op.multiply(x, steps), relax.const(0.5, "float32"))
    return relax.op.astype(relax.op.clip(relax.op.floor(more), -HIGH, HIGH), "int8")


def _dynamic(inputs: list[relax.Expr], _attributes: dict[str, Any]) -> relax.Expr:
    """Convert `DynamicQuantizeLinear`; the scale of zeros is 1, as onnxruntime's. TVM divides them by 0."""
    (x,) = inputs
    builder, zero = relax.BlockBuilder.current(), relax.const(0.0, "float32")
    least = builder.emit(relax.op.minimum(zero, relax.op.min(x)))
    most = relax.op.maximum(zero, relax.op.max(x))
    step = builder.emit(relax.op.divide(relax.op.subtract(most, least), relax.const(255.0, "float32")))
    none = relax.op.equal(step, zero)
    scale = builder.emit(relax.op.where(none, relax.const(1.0, "float32"), step))
    below = relax.op.subtract(zero, relax.op.divide(least, scale))
    middle = builder.emit(relax.op.astype(relax.op.round(relax.op.clip(below, 0, 255)), "uint8"))
    return relax.Tuple([relax.op.quantize(x, scale, middle, axis=0, out_dtype="uint8"), scale, middle])


INTEGERS: dict[str, Converter] = {
    "DynamicQuantizeLinear": _dynamic,
    PLAIN: _convolution,
    SUMMED: _convolution,
    ROUND: _rounded,
}
"""Converters by operator; see `converters.CONVERTERS`."""


# Converters of operators that write values at computed indices, which never leave their buffers.

Attributes = dict[str, Any]


def _shape(value: relax.Expr) -> tuple[int, ...]:
    return tuple(int(extent) for extent in value.ty.shape)


def _reversed(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    """Convert `ReverseSequence`: reverse the first values of each sequence of a batch."""
    batch, time = attributes.get("batch_axis", 1), attributes.get("time_axis", 0)

    def reversed_sequence(x: te.Tensor, lengths: te.Tensor) -> te.Tensor:
        steps, zero = tirx.const(int(x.shape[time]), "int64"), tirx.const(0, "int64")

        def value(*place: Any) -> Any:
            mirrored = tirx.max(tirx.min(lengths[place[batch]], steps), zero) - 1 - place[time]
            step = tirx.Select(mirrored >= 0, mirrored, place[time])
            # Generated code truncates an index to 32 bits but compares in 64: clamp it where it is used.
            near = tirx.max(tirx.min(step, steps - 1), zero)
            return x(*place[:time], near, *place[time + 1 :])

        return te.compute(x.shape, value, name="reversed")

    return relax.BlockBuilder.current().call_te(reversed_sequence, *inputs)


def _scattered_cache(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    """Convert `TensorScatter`: replace the values of a cache from a step on, for each batch."""
    cache, update, begin = [*inputs, None][:3]
    rank = len(_shape(cache))
    axis = attributes.get("axis", -2) % rank
    if begin is None:
        begin = relax.const(np.zeros(_shape(cache)[0], np.int64))
    circular = attributes.get("mode", b"linear") == b"circular"

    def scattered(cache: te.Tensor, update: te.Tensor, begin: te.Tensor) -> te.Tensor:
        zero, extent = tirx.const(0, "int64"), tirx.const(int(cache.shape[axis]), "int64")
        new = tirx.const(int(update.shape[axis]), "int64")

        def value(*place: Any) -> Any:
            first = begin[place[0]]
            first = tirx.floormod(first, extent) if circular else tirx.max(tirx.min(first, extent), zero)
            step = place[axis] - first
            if circular:
                step = tirx.Select(step < zero, step + extent, step)
            near = tirx.min(tirx.max(step, zero), new - 1)
            inside = tirx.EQ(step, near)
            return tirx.if_then_else(inside, update(*place[:axis], near, *place[axis + 1 :]), cache(*place))

        return te.compute(cache.shape, value, name="scattered")

    return relax.BlockBuilder.current().call_te(scattered, cache, update, begin)


def _scattered(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    """Convert `ScatterElements`; TVM's function wants the other axes in the order of the data."""
    data, indices, updates = inputs
    whole, part = _shape(data), _shape(indices)
    axis = attributes.get("axis", 0) % len(whole)
    indices = _counted(indices, [whole[axis]])
    reduction = _reduction(attributes)
    alike = all(
        whole[place] == part[place] for place in range(len(whole)) if place not in (0, axis, axis + 1)
    )
    if alike:
        return relax.op.scatter_elements(data, indices, updates, axis=axis, reduction=reduction)
    dtype, count = str(indices.ty.dtype), int(np.prod(part))
    grid = np.moveaxis(np.indices(part), 0, -1).reshape(count, len(whole)).astype(dtype)
    chosen = np.broadcast_to(np.eye(len(whole), dtype=bool)[axis], grid.shape)
    target = relax.op.where(
        relax.const(chosen, "bool"), relax.op.reshape(indices, (count, 1)), relax.const(grid, dtype)
    )
    return relax.op.scatter_nd(data, target, relax.op.reshape(updates, (count,)), reduction)


def _counted(indices: relax.Expr, extents: Sequence[int]) -> relax.Expr:
    """Resolve negative constant indices; the bounds check has resolved computed ones."""
    if not isinstance(indices, GenericConst):
        return indices
    stored = indices.value.numpy()
    return relax.const(
        np.where(stored < 0, stored + np.array(extents, stored.dtype), stored), str(stored.dtype)
    )


def _gathered(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    data, indices = inputs
    axis = attributes.get("axis", 0) % len(_shape(data))
    return relax.op.gather_elements(data, _counted(indices, [_shape(data)[axis]]), axis)


def _gathered_blocks(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    data, indices = inputs
    first = attributes.get("batch_dims", 0)
    extents = _shape(data)[first : first + _shape(indices)[-1]]
    return relax.op.gather_nd(data, _counted(indices, extents), first)


def _scattered_blocks(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    data, indices, updates = inputs
    counted = _counted(indices, _shape(data)[: _shape(indices)[-1]])
    return relax.op.scatter_nd(data, counted, updates, _reduction(attributes))


def _place_of(largest: bool) -> Converter:
    """Return a converter of `ArgMax` or `ArgMin`.

    TVM's own starts at index -1 with the least finite number, and returns -1 if no value exceeds it. Among
    equal values the first wins, or the last with `select_last_index`. NaN is skipped; a row of NaN alone
    gives index 0.
    """

    def converted(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
        shape = _shape(inputs[0])
        axis, keep = attributes.get("axis", 0) % len(shape), bool(attributes.get("keepdims", 1))
        last = bool(attributes.get("select_last_index", 0))
        # The place to start from loses against every other one of an equal value.
        nowhere = -1 if last else shape[axis]

        def better(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
            beyond = other[1] > one[1] if largest else other[1] < one[1]
            behind = other[0] > one[0] if last else other[0] < one[0]
            taken = tirx.any(beyond, tirx.all(tirx.EQ(other[1], one[1]), behind))
            return [tirx.Select(taken, theirs, size) for size, theirs in zip(one, other, strict=True)]

        def start(place: str, value: str) -> list[Any]:
            if "float" in value:
                worst = tirx.const(float("-inf") if largest else float("inf"), value)
            else:
                worst = tirx.min_value(value) if largest else tirx.max_value(value)
            return [tirx.const(nowhere, place), worst]

        reducer = te.comm_reducer(better, start, name="place_of_extreme")

        def reduced(x: te.Tensor) -> te.Tensor:
            along = te.reduce_axis((0, shape[axis]), "k")
            kept = [1 if place == axis else extent for place, extent in enumerate(shape)]
            extents = [extent for place, extent in enumerate(kept) if keep or place != axis]

            def pair(*index: Any) -> Any:
                begin, end = index[:axis], index[axis + 1 if keep else axis :]
                return reducer((along.astype("int64"), x(*begin, along, *end)), axis=along)

            places, _values = te.compute(extents, pair, name="place_of_extreme")
            zero = tirx.const(0, "int64")
            inside = zero if nowhere < 0 else tirx.const(nowhere - 1, "int64")

            def valid(*index: Any) -> Any:
                place = places(*index)
                lost = place < inside if nowhere < 0 else place > inside
                return tirx.Select(lost, zero, place)

            return te.compute(extents, valid, name="place")

        return relax.BlockBuilder.current().call_te(reduced, inputs[0])

    return converted


def _reduction(attributes: Attributes) -> str:
    """Return TVM's name of the reduction for several values at one index."""
    name: str = attributes.get("reduction", b"none").decode()
    return "update" if name == "none" else name


PLACES: dict[str, Converter] = {
    "ArgMax": _place_of(True),
    "ArgMin": _place_of(False),
    "GatherElements": _gathered,
    "GatherND": _gathered_blocks,
    "ReverseSequence": _reversed,
    "ScatterElements": _scattered,
    "ScatterND": _scattered_blocks,
    "TensorScatter": _scattered_cache,
}
"""Converters by operator; see `converters.CONVERTERS`."""


# Converters of the checks that `models/bounds` inserts, to calls of edge-rt's packed functions.
#
# The same functions are registered in this process, where tests run networks; their messages are shorter.

CHECK_INDICES, CHECK_DIVISOR = "edge.check.indices", "edge.check.divisor"
"""Names of the functions that native/src/check.cc registers."""


def _indices(inputs: list[relax.Expr], attributes: dict[str, Any]) -> relax.Expr:
    return _call(
        CHECK_INDICES,
        inputs[0],
        relax.ShapeExpr([int(extent) for extent in attributes["extents"]]),
        tirx.IntImm("int64", int(attributes["negative"])),
        *_words(attributes),
    )


def _divisor(inputs: list[relax.Expr], attributes: dict[str, Any]) -> relax.Expr:
    return _call(CHECK_DIVISOR, inputs[0], *_words(attributes))


def _words(attributes: dict[str, Any]) -> list[tvm.ir.StringImm]:
    return [tvm.ir.StringImm(attributes[name].decode()) for name in ("what", "who")]


def _call(function: str, values: relax.Expr, *arguments: Any) -> relax.Expr:
    # The check copies its input to its output, so that nothing can use the values before the check.
    return relax.call_dps_packed(function, [values, *arguments], values.ty)


CHECKS: dict[str, Converter] = {INDICES: _indices, DIVISOR: _divisor}
"""Converters by operator; see `converters.CONVERTERS`."""


def _check_indices(
    values: tvm.runtime.Tensor, extents: Any, negative: int, what: str, who: str, out: tvm.runtime.Tensor
) -> None:
    array = values.numpy()
    ends = np.resize(np.array(list(extents), np.int64), array.shape or (1,)).reshape(array.shape)
    begins = -ends if negative else 0 * ends
    wrong = (ends != 0) & ~((array >= begins) & (array < ends))
    _refuse(array, wrong, what, f"{who} from {begins.min()} to {ends.max() - 1}")
    out.copyfrom(np.where((array < 0) & (negative == 1), array + ends.astype(array.dtype), array))


def _check_divisor(values: tvm.runtime.Tensor, what: str, who: str, out: tvm.runtime.Tensor) -> None:
    _refuse(values.numpy(), values.numpy() == 0, what, who)
    out.copyfrom(values)


def _refuse(array: Array, wrong: Array, what: str, who: str) -> None:
    if wrong.any():
        raise ValueError(f"{what} holds {array[wrong].flat[0]}, and {who}")


tvm.register_global_func(CHECK_INDICES, _check_indices, override=True)
tvm.register_global_func(CHECK_DIVISOR, _check_divisor, override=True)


def _pairwise(operator: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    """Return a converter that combines two operands at a time, which fuses; TVM stacks all and reduces."""
    return lambda inputs, _attributes: reduce(operator, inputs)


def _mean(inputs: list[relax.Expr], _attributes: dict[str, Any]) -> relax.Expr:
    count = relax.const(len(inputs), inputs[0].ty.dtype)
    return relax.op.divide(reduce(relax.op.add, inputs), count)


def _picked(inputs: list[relax.Expr], attributes: dict[str, Any]) -> relax.Expr:
    """Convert `Gather`; constant indices may be negative, the bounds check has resolved computed ones."""
    data, indices = inputs
    axis = attributes.get("axis", 0) % len(data.ty.shape)
    if isinstance(indices, GenericConst):
        dtype, extent, stored = str(indices.ty.dtype), int(data.ty.shape[axis]), indices.value.numpy()
        indices = relax.const(np.where(stored < 0, stored + extent, stored).astype(dtype), dtype)
    return relax.op.take(data, indices, axis, mode="clip")


def _largest(inputs: list[relax.Expr], attributes: dict[str, Any]) -> relax.Expr:
    """Convert `TopK`; TVM's own reads k from an attribute, which became an input in operator set 10."""
    number = inputs[1] if len(inputs) > 1 else relax.const(attributes.get("k", 1), "int64")
    if not isinstance(number, GenericConst):
        raise ValueError("TopK k must be a constant")
    if not attributes.get("sorted", 1):
        raise ValueError("TopK sorted must be 1")
    count, axis = int(number.value.numpy().item()), attributes.get("axis", -1)
    largest = bool(attributes.get("largest", 1))
    return relax.op.topk(inputs[0], count, axis, ret_type="both", largest=largest, dtype="int64")


CONVERTERS: dict[str, Converter] = {
    **ARITHMETIC,
    **CELLS,
    **CHECKS,
    **INTEGERS,
    "DynamicQuantizeLSTM": ConvertDynamic(),
    **PLACES,
    "Gather": _picked,
    "Max": _pairwise(relax.op.maximum),
    "Mean": _mean,
    "Min": _pairwise(relax.op.minimum),
    "Sum": _pairwise(relax.op.add),
    "TopK": _largest,
}
"""Converters by operator; each takes the inputs and the attributes, and returns a Relax expression."""

"""Converters of operators that write values at computed indices, which never leave their buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.ir.expr import GenericConst

from toolchain.tvm_compat import Converter

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
    alike = all(whole[each] == part[each] for each in range(len(whole)) if each not in (0, axis, axis + 1))
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
    """Resolve negative constant indices; computed ones were resolved by their check."""
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

    TVM's own starts from the place -1 and the least finite number, and answers -1 where nothing is beyond
    that. Of equal values the first counts, or the last with `select_last_index`. NaN is passed over; where
    all is NaN the place is 0.
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
            return [tirx.Select(taken, theirs, own) for own, theirs in zip(one, other, strict=True)]

        def start(place: str, value: str) -> list[Any]:
            if "float" in value:
                worst = tirx.const(float("-inf") if largest else float("inf"), value)
            else:
                worst = tirx.min_value(value) if largest else tirx.max_value(value)
            return [tirx.const(nowhere, place), worst]

        reducer = te.comm_reducer(better, start, name="place_of_extreme")

        def reduced(x: te.Tensor) -> te.Tensor:
            along = te.reduce_axis((0, shape[axis]), "k")
            kept = [1 if each == axis else extent for each, extent in enumerate(shape)]
            found = [extent for each, extent in enumerate(kept) if keep or each != axis]

            def pair(*index: Any) -> Any:
                begin, end = index[:axis], index[axis + 1 if keep else axis :]
                return reducer((along.astype("int64"), x(*begin, along, *end)), axis=along)

            places, _values = te.compute(found, pair, name="place_of_extreme")
            zero = tirx.const(0, "int64")
            inside = zero if nowhere < 0 else tirx.const(nowhere - 1, "int64")

            def valid(*index: Any) -> Any:
                place = places(*index)
                lost = place < inside if nowhere < 0 else place > inside
                return tirx.Select(lost, zero, place)

            return te.compute(found, valid, name="place")

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

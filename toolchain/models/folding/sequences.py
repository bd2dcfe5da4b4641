"""Folds sequences of tensors with known lengths and indices; the folded graph has only the tensors."""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.models.folding.control import stack
from toolchain.models.folding.scope import Scope
from toolchain.models.folding.walk import Walk
from toolchain.models.walk import attributes_of


def construct(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold `SequenceConstruct` and `SequenceEmpty`."""
    _keep(walk, node, scope, [scope.find(name) for name in node.input])
    return True


def insert(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold `SequenceInsert` at the end or at a constant index."""
    values, place = _sequence(walk, node, scope), _place(walk, node, scope, 2)
    if values is None or place is None:
        return False
    where = place if isinstance(place, int) else len(values)
    _keep(walk, node, scope, [*values[:where], scope.find(node.input[1]), *values[where:]])
    return True


def at(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold `SequenceAt`: its output is the tensor itself."""
    values, place = _sequence(walk, node, scope), _place(walk, node, scope, 1)
    if values is None or not isinstance(place, int) or not -len(values) <= place < len(values):
        return False
    scope.names[node.output[0]] = values[place]
    return True


def length(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold `SequenceLength` to a constant."""
    values = _sequence(walk, node, scope)
    if values is None:
        return False
    scope.names[node.output[0]] = walk.constant(np.int64(len(values)), node.output[0])
    return True


def split(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold `SplitToSequence` to slices of a tensor whose shape is known."""
    given = attributes_of(node)
    source, axis = scope.find(node.input[0]), int(given.get("axis", 0))
    shape = walk.shape(source)
    sizes = walk.values.get(scope.find(node.input[1])) if len(node.input) > 1 and node.input[1] else None
    if shape is None or (len(node.input) > 1 and node.input[1] and sizes is None):
        return False
    extent, parts = shape[axis], [1] * shape[axis]
    if sizes is not None and sizes.array.ndim:
        parts = [int(size) for size in sizes.array]
    elif sizes is not None:
        size = int(sizes.array)
        parts = [min(size, extent - begin) for begin in range(0, extent, size)] if size > 0 else []
    if sum(parts) != extent or min(parts, default=0) < 1:
        return False
    alone = sizes is None and not given.get("keepdims", 1)
    values, begin = [], 0
    for size in parts:
        like = f"{source}.part"
        if alone:
            values.append(walk.emit("Gather", [source, walk.constant(begin, "place")], like, axis=axis))
        else:
            bounds = [walk.constant([bound], "bound") for bound in (begin, begin + size, axis)]
            values.append(walk.emit("Slice", [source, *bounds], like))
        begin += size
    _keep(walk, node, scope, values)
    return True


def concatenated(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold `ConcatFromSequence` to a concatenation along an existing axis or a new one."""
    values, given = _sequence(walk, node, scope), attributes_of(node)
    if not values:
        return False
    axis = int(given["axis"])
    if given.get("new_axis", 0):
        scope.names[node.output[0]] = stack(walk, values, axis, node.output[0])
    else:
        scope.names[node.output[0]] = walk.emit("Concat", values, node.output[0], axis=axis)
    return True


def _sequence(walk: Walk, node: onnx.NodeProto, scope: Scope) -> list[str] | None:
    return walk.sequences.get(scope.find(node.input[0]))


def _keep(walk: Walk, node: onnx.NodeProto, scope: Scope, values: list[str]) -> None:
    name = walk.names.free(node.output[0])
    walk.sequences[name] = values
    scope.names[node.output[0]] = name


def _place(walk: Walk, node: onnx.NodeProto, scope: Scope, index: int) -> int | str | None:
    """Return the index in an input, or `end` if the input is omitted; None if its value is unknown."""
    if len(node.input) <= index or not node.input[index]:
        return "end"
    value = walk.values.get(scope.find(node.input[index]))
    return None if value is None else int(value.array.item())

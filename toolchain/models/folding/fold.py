"""Folds a whole model, with special rules for shapes, branches, loops and lists of tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from toolchain.arrays import Array
from toolchain.models.folding.finish import finish
from toolchain.models.folding.folded import Folded, Scope
from toolchain.models.folding.walk import Special, Walk
from toolchain.models.onnx_graph import attributes_of

# Folds operators for which no values need to be known: Shape, from its input's type, and Identity.


def identity(_walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold an identity: map the output's name to the input."""
    scope.names[node.output[0]] = scope.find(node.input[0])
    return True


def shape_of(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold `Shape`: store the shape of a tensor, or the slice that the node's attributes select."""
    type_ = walk.types.get(scope.find(node.input[0]))
    if type_ is None or not type_.tensor_type.HasField("shape"):
        return False
    asked = {attribute.name: attribute.i for attribute in node.attribute}
    dims = list(type_.tensor_type.shape.dim)[asked.get("start", 0) : asked.get("end")]
    if not all(dim.HasField("dim_value") for dim in dims):
        return False
    extents = np.array([dim.dim_value for dim in dims], np.int64)
    scope.names[node.output[0]] = walk.constant(extents, node.output[0])
    return True


def size(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold `Size`: store the number of elements of a tensor whose shape is known."""
    shape = walk.shape(scope.find(node.input[0]))
    if shape is None:
        return False
    scope.names[node.output[0]] = walk.constant(np.int64(math.prod(shape)), node.output[0])
    return True


def dropout(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold `Dropout`: add the shape of its mask, which onnx infers only since operator set 10."""
    walk.plain(node, scope)
    shape = walk.shape(scope.find(node.input[0]))
    for name in (scope.find(name) for name in node.output[1:] if name):
        if name in walk.types and shape is not None:
            walk.types[name] = helper.make_tensor_type_proto(walk.types[name].tensor_type.elem_type, shape)
    return True


# Inlines the graphs of `If`, and unrolls `Loop` and `Scan`, if conditions and trip counts are known.

UNROLLED = 10_000
"""Largest number of nodes for all unrolled loops of a network: more take minutes to compile."""

TOO_LONG = f"makes more than {UNROLLED} nodes when its loop is written out"


def branch(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Inline the branch of an `If` whose condition is known."""
    condition = walk.values.get(scope.find(node.input[0]))
    if condition is None:
        walk.plain(node, scope, reason="takes a branch that depends on the data")
        return True
    taken = attributes_of(node)["then_branch" if condition.array.item() else "else_branch"]
    inner = Scope(scope)
    walk.graph(taken, inner)
    for name, value in zip(node.output, taken.output, strict=True):
        scope.names[name] = inner.find(value.name)
    return True


def loop(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Unroll a `Loop` whose trip count is known."""
    body: onnx.GraphProto = attributes_of(node)["body"]
    count, condition = ([*node.input[:2], "", ""])[:2]
    trips = walk.values.get(scope.find(count)) if count else None
    going = walk.values.get(scope.find(condition)) if condition else None
    if (count and trips is None) or (condition and going is None):
        return _refuse(walk, node, scope, "runs as often as the data say")
    carried = [scope.find(name) for name in node.input[2:]]
    most = int(trips.array.item()) if trips is not None else None
    stacked: list[list[str]] = [[] for _ in node.output[len(carried) :]]
    outside = Scope(scope)
    walk.store(body, outside)
    step, goes_on, start = 0, going is None or bool(going.array.item()), walk.mark()
    while goes_on and (most is None or step < most):
        if not _affordable(walk, body):
            walk.forget(start)
            return _refuse(walk, node, scope, TOO_LONG)
        bound = [walk.constant(np.int64(step), "step"), walk.constant(np.bool_(True), "going"), *carried]
        inner = _bound(outside, body, bound)
        walk.graph(body, inner)
        results = [inner.find(value.name) for value in body.output]
        carried_condition = walk.values.get(results[0])
        if carried_condition is None:
            walk.forget(start)
            return _refuse(walk, node, scope, "runs as often as the data say")
        goes_on = bool(carried_condition.array.item())
        carried = results[1 : 1 + len(carried)]
        for values, value in zip(stacked, results[1 + len(carried) :], strict=True):
            values.append(value)
        step += 1
    if any(not values and name for values, name in zip(stacked, node.output[len(carried) :], strict=True)):
        return _refuse(walk, node, scope, "is a loop that never runs, and its output is empty")
    outputs = [*carried, *(stack(walk, values, 0, "stacked") for values in stacked)]
    scope.names.update((name, value) for name, value in zip(node.output, outputs, strict=True) if name)
    return True


def scan(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Unroll a `Scan`: write its body once for each slice of the scanned tensors."""
    given = attributes_of(node)
    body: onnx.GraphProto = given["body"]
    count = int(given["num_scan_inputs"])
    inputs = [scope.find(name) for name in node.input]
    carried, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    stacked_count = len(node.output) - len(carried)
    axes = given.get("scan_input_axes") or [0] * count
    shapes = [walk.shape(name) for name in scanned]
    if walk.opset < 9 or any(shape is None for shape in shapes):  # set 8 has batches and lengths of its own
        return _refuse(walk, node, scope, "scans a tensor whose length depends on the data")
    steps = {shape[axis] for shape, axis in zip(shapes, axes, strict=True) if shape is not None}
    if len(steps) != 1 or not min(steps):
        return _refuse(walk, node, scope, "scans tensors of different lengths, or of none")
    (length,) = steps
    backwards = given.get("scan_input_directions") or [0] * count
    turned = given.get("scan_output_directions") or [0] * stacked_count
    out_axes = given.get("scan_output_axes") or [0] * stacked_count
    stacked: list[list[str]] = [[] for _ in range(stacked_count)]
    outside = Scope(scope)
    walk.store(body, outside)
    start = walk.mark()
    for step in range(length):
        if not _affordable(walk, body):
            walk.forget(start)
            return _refuse(walk, node, scope, TOO_LONG)
        slices = [
            walk.emit(
                "Gather", [name, walk.constant(np.int64(length - 1 - step if back else step), "step")],
                f"{name}.slice", axis=axis,
            )
            for name, axis, back in zip(scanned, axes, backwards, strict=True)
        ]  # fmt: skip
        inner = _bound(outside, body, [*carried, *slices])
        walk.graph(body, inner)
        results = [inner.find(value.name) for value in body.output]
        carried = results[: len(carried)]
        for values, value in zip(stacked, results[len(carried) :], strict=True):
            values.append(value)
    outputs = [*carried]
    for values, axis, back in zip(stacked, out_axes, turned, strict=True):
        outputs.append(stack(walk, values[::-1] if back else values, axis, "stacked"))
    scope.names.update((name, value) for name, value in zip(node.output, outputs, strict=True) if name)
    return True


def stack(walk: Walk, values: Sequence[str], axis: int, like: str) -> str:
    """Write the values stacked along a new axis; return the name of the result."""
    rows = []
    for value in values:
        if walk.opset >= 13:
            axes = walk.constant(np.array([axis], np.int64), "axes")
            rows.append(walk.emit("Unsqueeze", [value, axes], f"{value}.row"))
        else:
            rows.append(walk.emit("Unsqueeze", [value], f"{value}.row", axes=[axis]))
    return walk.emit("Concat", rows, like, axis=axis)


def _refuse(walk: Walk, node: onnx.NodeProto, scope: Scope, reason: str) -> bool:
    walk.plain(node, scope, reason=reason)
    return True


def _affordable(walk: Walk, body: onnx.GraphProto) -> bool:
    walk.unrolled += max(1, len(body.node))
    return walk.unrolled <= UNROLLED


def _bound(outside: Scope, body: onnx.GraphProto, values: Sequence[str]) -> Scope:
    """Return a scope for one iteration of a body, with its inputs bound."""
    inner = Scope(outside)
    inner.names.update((value.name, name) for value, name in zip(body.input, values, strict=True))
    return inner


# Folds sequences of tensors with known lengths and indices; the folded graph has only the tensors.


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


SPECIAL: dict[str, Special] = {
    "Dropout": dropout,
    "Identity": identity,
    "If": branch,
    "Loop": loop,
    "Scan": scan,
    "ConcatFromSequence": concatenated,
    "SequenceAt": at,
    "SequenceConstruct": construct,
    "SequenceEmpty": construct,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SplitToSequence": split,
    "Shape": shape_of,
    "Size": size,
}
"""Operators with special folding; all others are computed once their inputs are known."""


def fold(
    model: onnx.ModelProto,
    origin: str,
    frozen: Mapping[str, Array] | None = None,
    *,
    strict: bool = True,
    kept: frozenset[str] = frozenset(),
) -> Folded:
    """Fold everything that follows from the shapes of the inputs and from constants.

    Parameters
    ----------
    model
        The model, not changed; its inputs must be static for complete folding.
    origin
        Name of the source, for messages.
    frozen
        Values of the inputs that become constants.
    strict
        Refuse shapes that don't fit together, instead of leaving them open.
    kept
        Operators that are not folded even if all their inputs are known.

    Raises
    ------
    UsageError
        The shapes don't fit the operators; names the node.
    """
    walk = Walk(model, origin, strict, SPECIAL, kept)
    scope = walk.whole(frozen or {})
    return finish(walk, scope, set(frozen or {}))

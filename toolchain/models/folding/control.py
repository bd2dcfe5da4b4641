"""Inlines the graphs of `If`, and unrolls `Loop` and `Scan`, if conditions and trip counts are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from toolchain.models.folding.scope import Scope
from toolchain.models.folding.walk import Walk
from toolchain.models.walk import attributes_of

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
        told = walk.values.get(results[0])
        if told is None:
            walk.forget(start)
            return _refuse(walk, node, scope, "runs as often as the data say")
        goes_on = bool(told.array.item())
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
    made = len(node.output) - len(carried)
    axes = given.get("scan_input_axes") or [0] * count
    shapes = [walk.shape(name) for name in scanned]
    if walk.opset < 9 or any(shape is None for shape in shapes):  # set 8 has batches and lengths of its own
        return _refuse(walk, node, scope, "scans a tensor whose length depends on the data")
    steps = {shape[axis] for shape, axis in zip(shapes, axes, strict=True) if shape is not None}
    if len(steps) != 1 or not min(steps):
        return _refuse(walk, node, scope, "scans tensors of different lengths, or of none")
    (length,) = steps
    backwards = given.get("scan_input_directions") or [0] * count
    turned = given.get("scan_output_directions") or [0] * made
    out_axes = given.get("scan_output_axes") or [0] * made
    stacked: list[list[str]] = [[] for _ in range(made)]
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

"""Errors of one layer of a quantised file, as a compiler may make them: forgotten, off by a bit, mixed up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.arrays import Array

_Changed = dict[int, Array]  # by the place of an input, in QLinearConv's order

WEIGHT, WEIGHT_SCALE, OUT_SCALE, OUT_ZERO, BIAS = 3, 4, 6, 7, 8


def _no_bias(found: dict[int, Array]) -> _Changed:
    return {BIAS: np.zeros_like(found[BIAS])} if BIAS in found else {}


def _scale(found: dict[int, Array]) -> _Changed:
    return {WEIGHT_SCALE: (found[WEIGHT_SCALE] * np.float32(1.1)).astype(np.float32)}


def _zero(found: dict[int, Array]) -> _Changed:
    old = int(found[OUT_ZERO].reshape(()))
    ends = np.iinfo(found[OUT_ZERO].dtype)
    return {OUT_ZERO: np.full_like(found[OUT_ZERO], old + 3 if old + 3 <= ends.max else old - 3)}


def _channels(found: dict[int, Array]) -> _Changed:
    """Two output channels swapped: the two that differ most from one another in sum."""
    sums = found[WEIGHT].astype(np.int64).reshape(len(found[WEIGHT]), -1).sum(1)
    one, other = int(sums.argmin()), int(sums.argmax())
    order = np.arange(len(sums))
    order[[one, other]] = other, one
    return {WEIGHT: found[WEIGHT][order]}


FAULTS: dict[str, Callable[[dict[int, Array]], _Changed]] = {
    "bias forgotten": _no_bias,
    "scale 10 % off": _scale,
    "zero point 3 off": _zero,
    "two channels swapped": _channels,
}


def with_faults(model: onnx.ModelProto) -> Iterator[tuple[str, str, onnx.ModelProto]]:
    """Yield, for every fault and every QLinearConv, the fault, the layer and the model that has it."""
    for name, make in FAULTS.items():
        for place, node in enumerate(model.graph.node):
            if node.op_type != "QLinearConv":
                continue
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in copy.graph.initializer}
            given = {number: stored[each] for number, each in enumerate(node.input) if each in stored}
            changed = make(given)
            if not changed or all(np.array_equal(given[number], value) for number, value in changed.items()):
                continue
            for number, value in changed.items():
                copy.graph.initializer.append(numpy_helper.from_array(value, f"fault.{number}"))
                copy.graph.node[place].input[number] = f"fault.{number}"
            yield name, node.name or node.output[0], copy

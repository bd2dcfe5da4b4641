"""Gives `Slice` of operator sets before 10 what it cuts as inputs: TVM does not read its attributes."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.models.walk import all_nodes, attributes_of, opset_of

_INPUTS_SINCE = 10


def with_slices_by_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with `starts`, `ends` and `axes` as constants; the same object if nothing changes.

    Its operator set stays: the result is for TVM's importer alone.
    """
    if opset_of(model) >= _INPUTS_SINCE or not any(map(_is_slice, all_nodes(model.graph))):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in filter(_is_slice, all_nodes(copy.graph)):
        attributes = attributes_of(node)
        starts = attributes["starts"]
        parts = {
            "starts": starts,
            "ends": attributes["ends"],
            "axes": attributes.get("axes", range(len(starts))),
        }
        del node.attribute[:]
        for part, numbers in parts.items():
            name = f"{node.output[0]}/{part}"
            copy.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), name))
            node.input.append(name)
    return copy


def _is_slice(node: onnx.NodeProto) -> bool:
    return node.op_type == "Slice" and len(node.input) == 1

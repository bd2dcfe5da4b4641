"""Makes `Slice` of operator sets before 10, which cuts by attributes, readable for onnx and TVM."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.models.walk import all_nodes, attributes_of, opset_of

_INPUTS_SINCE = 10


def with_slices_by_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with `starts`, `ends` and `axes` as constants; the same object if nothing changes.

    TVM reads no attributes. Its operator set stays: the result is for TVM's importer alone.
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


def sort_axes(model: onnx.ModelProto) -> None:
    """Sort the axes of such slices, in place: onnx infers no shape for others."""
    for node in filter(_is_slice, all_nodes(model.graph)):
        own = {attribute.name: attribute.ints for attribute in node.attribute}
        lists = [own.get(name, ()) for name in ("axes", "starts", "ends")]
        cuts = sorted(zip(*lists, strict=False))
        if all(len(each) == len(cuts) for each in lists):  # else the file is refused later
            for numbers, ordered in zip(lists, zip(*cuts, strict=True), strict=False):
                numbers[:] = ordered


def _is_slice(node: onnx.NodeProto) -> bool:
    return node.op_type == "Slice" and len(node.input) == 1

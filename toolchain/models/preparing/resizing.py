"""Replaces `Upsample`, and the `Resize` of operator set 10, by the `Resize` of set 11.

TVM misreads the older operators: it takes the scales of set 10 for the region, and rounds `Upsample` to the
nearest pixel instead of down. onnx's own version converter uses the new default, half pixels, which gives
other numbers too.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.errors import UsageError
from toolchain.models.walk import all_nodes, attributes_of, node_name, opset_of

HINT = "export it again, with operator set 11 or newer"


def with_new_resizes(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    """Return `model` (with inferred shapes) with the old nodes replaced; its operator set stays.

    onnxruntime computes the old operators from coordinates `i / scale`, which it rounds down to enlarge and
    up to shrink.

    Raises
    ------
    UsageError
        Scales are not constant, do not give whole numbers of pixels, or are not spatial.
    """
    old = {"Upsample", "Resize"} if opset_of(model) == 10 else {"Upsample"}
    if not any(node.op_type in old for node in all_nodes(model.graph)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    values = (*graph.input, *graph.value_info, *graph.output)
    shapes = {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in values}
    for node in all_nodes(graph):
        attributes = attributes_of(node)
        if node.op_type == "Constant" and "value" in attributes:
            constants[node.output[0]] = numpy_helper.to_array(attributes["value"])
        if node.op_type not in old:
            continue
        scales = attributes.get("scales", constants.get(node.input[1]) if len(node.input) > 1 else None)
        problem = problem_of(scales, shapes.get(node.input[0], []))
        if scales is None or problem:
            raise UsageError(
                f"{origin}: unsupported use of {node.op_type} (node {node_name(node)!r}): {problem}", HINT
            )
        name = f"{node.output[0]}/scales"
        graph.initializer.append(numpy_helper.from_array(np.asarray(scales, np.float32), name))
        node.op_type = "Resize"
        node.input[1:] = ["", name]
        del node.attribute[:]
        new = meaning_of(attributes.get("mode", b"nearest"), scales)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in new.items())
    return copy


def meaning_of(mode: bytes, scales: np.ndarray | list[float]) -> dict[str, bytes]:
    """Return the attributes of set 11 that say what the old operators compute."""
    nearest = b"ceil" if min(scales) < 1 else b"floor"
    return {"mode": mode, "coordinate_transformation_mode": b"asymmetric", "nearest_mode": nearest}


def problem_of(scales: np.ndarray | list[float] | None, shape: list[int]) -> str:
    """Say why an old operator with these scales cannot be read; empty: it can."""
    if scales is None:
        return "its scales are computed by the network; they must be constants"
    told = [round(float(scale), 6) for scale in scales]
    sizes = np.asarray(shape) * np.asarray(scales, np.float64) if len(shape) == len(told) else np.array([0.5])
    if told[:2] != [1, 1] or not 3 <= len(told) <= 5:
        return f"its scales {told} change more than one to three spatial dimensions behind batch and channels"
    if min(told) < 1 < max(told):
        return f"its scales {told} enlarge and shrink at once"
    if not np.allclose(sizes, np.round(sizes), rtol=0, atol=1e-3):
        return f"its scales {told} make no whole number of pixels of the shape {shape}"
    return ""

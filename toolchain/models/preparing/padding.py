"""Replaces `auto_pad` of convolutions and pools by explicit pads.

TVM pads symmetrically even if `SAME_LOWER` of a pool needs one more before, and divides by zero if a kernel
is wider than the image.
"""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper

from toolchain.models.preparing.infer_shapes import WINDOWED
from toolchain.models.walk import all_nodes, attributes_of


def with_explicit_pads(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` (static shapes inferred) without `auto_pad`; the same object if it has none."""
    if not any(_automatic(node) for node in all_nodes(model.graph)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    values = (*graph.input, *graph.value_info, *graph.output)
    shapes = {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in values}
    shapes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for node in all_nodes(graph):
        attributes = attributes_of(node)
        size = shapes.get(node.input[0], [])[2:] if _automatic(node) else []
        kernel = attributes.get("kernel_shape") or shapes.get(node.input[1], [])[2:] if size else []
        if not size or len(kernel) != len(size):
            continue
        pads = _pads(size, kernel, attributes)
        del node.attribute[:]
        kept = {name: value for name, value in attributes.items() if name not in ("auto_pad", "pads")}
        for name, value in (kept | {"pads": pads}).items():
            node.attribute.append(helper.make_attribute(name, value))
    return copy


def _automatic(node: onnx.NodeProto) -> bool:
    return node.op_type in WINDOWED and any(
        each.name == "auto_pad" and each.s not in (b"", b"NOTSET") for each in node.attribute
    )


def _pads(size: list[int], kernel: list[int], attributes: dict[str, Any]) -> list[int]:
    """Return ONNX's `pads`: the pads before each axis, then those after."""
    ones = [1] * len(size)
    strides, dilations = attributes.get("strides", ones), attributes.get("dilations", ones)
    before, after = [], []
    for extent, taps, stride, dilation in zip(size, kernel, strides, dilations, strict=True):
        total = 0
        if attributes["auto_pad"] != b"VALID":
            outputs = -(-extent // stride)
            total = max((outputs - 1) * stride + (taps - 1) * dilation + 1 - extent, 0)
        more = total - total // 2
        lower = attributes["auto_pad"] == b"SAME_LOWER"
        before.append(more if lower else total - more)
        after.append(total - more if lower else more)
    return before + after

"""Infers the shapes of inner tensors by onnx, and refuses those that cannot be compiled."""

from __future__ import annotations

from math import prod
from typing import Any

import onnx
from onnx import helper, shape_inference

from toolchain.errors import UsageError
from toolchain.foreign import first_line, shortened
from toolchain.models.onnx_graph import all_nodes, attributes_of
from toolchain.models.options import format_shape

WINDOWED = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool"})
"""Operators that move a kernel over an image."""

LARGE = 1 << 16
"""Size in bytes above which a stored tensor is a weight, not a shape used for inference."""

MOST_ELEMENTS = 2**31 - 1
"""Limit for one tensor: compiled code indexes with 32 bits."""

LONGEST_LIST = 1 << 16
"""Most values of a computed constant used to infer shapes; onnx needs 100 bytes for each."""

MOST_DIMENSIONS = 32
"""Limit for one tensor: numpy's own before version 2, and far more than networks have."""

_HINT = "`toolchain model inspect` shows the inputs; check the file, --shape and --batch"


def infer_shapes(model: onnx.ModelProto, origin: str, *, strict: bool = True) -> onnx.ModelProto:
    """Return a copy of `model` with the shapes of its inner tensors.

    Parameters
    ----------
    model
        The model; its inputs must be static to get static inner shapes.
    origin
        Name of the source, for messages.
    strict
        Refuse shapes that don't fit together, instead of leaving them out.

    Raises
    ------
    UsageError
        The shapes don't fit the operators, or a tensor is too large.
    """
    if strict:
        _check_sizes(
            model, origin
        )  # on shapes known from folding, since inference may allocate these tensors
    try:
        known = shape_inference.infer_shapes(
            _without_large_weights(model),
            check_type=strict,
            strict_mode=strict,
            data_prop=not _has_long_constant(model),
        )
    except Exception as error:  # InferenceError, or whatever the C++ side throws at a broken graph
        if not strict:
            return model
        raise UsageError(f"{origin}: the shapes don't fit together: {first_line(error)}", _HINT) from error
    for tensor, whole in zip(known.graph.initializer, model.graph.initializer, strict=True):
        if len(whole.raw_data) > LARGE:
            tensor.CopyFrom(whole)
    if strict:
        _check_windows(known, origin)
        _check_sizes(known, origin)
    return known


def _without_large_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with only the shapes of large weights, since inference serialises the whole model."""
    outline = onnx.ModelProto()
    outline.CopyFrom(model)
    for tensor in outline.graph.initializer:
        if len(tensor.raw_data) > LARGE:
            tensor.ClearField("raw_data")
    return outline


def _check_windows(model: onnx.ModelProto, origin: str) -> None:
    """Refuse images smaller than a kernel; onnx itself would continue with empty ones.

    Where such a kernel has wide strides, onnx even counts one place, as it rounds a negative quotient to 0.
    """
    graph = model.graph
    values = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    for node in graph.node:
        value = values.get(node.output[0]) if node.op_type in WINDOWED else None
        if value and (
            any(dim.HasField("dim_value") and dim.dim_value < 1 for dim in value.type.tensor_type.shape.dim)
            or _exceeds(node, values.get(node.input[0]))
        ):
            raise UsageError(
                f"{origin}: the shapes don't fit together: nothing is left of {value.name!r}", _HINT
            )


def _exceeds(node: onnx.NodeProto, image: onnx.ValueInfoProto | None) -> bool:
    """Whether a node is known to have a kernel that is larger than its image with its padding."""
    attributes = attributes_of(node)
    kernel = attributes.get("kernel_shape", ())
    if (
        image is None
        or attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
        or attributes.get("ceil_mode")
    ):
        return False
    rank = len(kernel)
    pads, dilations = attributes.get("pads", (0,) * 2 * rank), attributes.get("dilations", (1,) * rank)
    return any(
        dim.HasField("dim_value") and dim.dim_value + before + after < (taps - 1) * apart + 1
        for dim, before, after, taps, apart in zip(
            image.type.tensor_type.shape.dim[2:], pads[:rank], pads[rank:], kernel, dilations, strict=False
        )
    )


def _has_long_constant(model: onnx.ModelProto) -> bool:
    """Whether a tensor longer than any shape is computed from constants alone.

    onnx would propagate each of its values.
    """
    constant = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if all(name in constant for name in node.input if name):
            constant.update(node.output)
    return any(
        value.name in constant
        and prod(dim.dim_value for dim in value.type.tensor_type.shape.dim) > LONGEST_LIST
        for value in (*model.graph.value_info, *model.graph.output)
    )


def _check_sizes(model: onnx.ModelProto, origin: str) -> None:
    """Refuse tensors with more elements than 32 bits can count, before anything allocates them."""
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if len(shape) > MOST_DIMENSIONS:
            raise UsageError(
                f"{origin}: tensor {shortened(repr(value.name))} has {len(shape)} dimensions; "
                f"{MOST_DIMENSIONS} can be compiled",
                _HINT,
            )
        if prod(shape) > MOST_ELEMENTS:
            raise UsageError(
                f"{origin}: {format_shape(value.name, shape)} has {prod(shape)} elements, "
                f"and compiled code can count {MOST_ELEMENTS}",
                _HINT,
            )


# Replaces `auto_pad` of convolutions and pools by explicit pads.
#
# TVM pads symmetrically even if `SAME_LOWER` of a pool needs one more before, and divides by zero if a
# kernel is wider than the image.


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
        attribute.name == "auto_pad" and attribute.s not in (b"", b"NOTSET") for attribute in node.attribute
    )


def _pads(size: list[int], kernel: list[int], attributes: dict[str, Any]) -> list[int]:
    """Return `auto_pad` as ONNX's `pads`: the padding before each axis, then that after each axis."""
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

"""Says in words of ours that the inputs of a node do not fit it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

import onnx

from toolchain.errors import UsageError
from toolchain.foreign import first_line, printable, shortened
from toolchain.models.folding.constants import static_shape
from toolchain.models.walk import attributes_of, called, type_name
from toolchain.quantities import counted

Types = Mapping[str, onnx.TypeProto]

HINT = "check the file, --shape and --batch: `toolchain model inspect` shows the inputs"

_KINDS = re.compile(r"\[(?:Shape|Type)InferenceError\]\s*|Inference error\(s\): ")
_OBJECT = re.compile(r"\b(?:ir|relax|tirx)\.\w+\(|<[\w.]+ object at")


def misfit(origin: str, node: onnx.NodeProto, types: Types, why: str) -> UsageError:
    """Return the error for a node whose inputs do not fit; the message shows them."""
    return UsageError(
        f"{origin}: the shapes don't fit together: {called(node)}{shown_inputs(node, types)}: {why}", HINT
    )


def shown_inputs(node: onnx.NodeProto, types: Types) -> str:
    """Return ` of x=1,4 float32, w=5,3 float32`; empty if nothing is known."""
    shown = []
    for name in filter(None, node.input):
        shape = static_shape(types.get(name))
        if shape is not None:
            extents = ",".join(map(str, shape)) or "()"
            shown.append(f"{shortened(name)}={extents} {type_name(types[name])}")
    return f" of {', '.join(shown[:_MOST_SHOWN])}" if shown else ""


_MOST_SHOWN = 4


def reason(error: BaseException) -> str:
    """Return what a library says of a node, without its names of errors and its objects."""
    said = _KINDS.sub("", first_line(error))
    place = _OBJECT.search(said)
    return said if place is None else said[: place.start()].rstrip(" :,") or type(error).__name__


def check_fits(origin: str, node: onnx.NodeProto, types: Types, found: Types) -> None:
    """Refuse what neither onnx notices nor the importer says well.

    Parameters
    ----------
    types
        Of the inputs.
    found
        Of the outputs.

    Raises
    ------
    UsageError
        A scale of QuantizeLinear or DequantizeLinear does not fit its axis, a kernel its weight or its
        image, or a Reshape its input.
    """
    if node.domain in ("", "ai.onnx") and (why := _problem(node, types, found)):
        raise misfit(origin, node, types, why)


def _problem(node: onnx.NodeProto, types: Types, found: Types) -> str:
    shapes = [static_shape(types.get(name)) for name in node.input]
    first = shapes[0] if shapes else None
    own = attributes_of(node)
    if node.op_type in ("QuantizeLinear", "DequantizeLinear") and not own.get("block_size"):
        return _scales(first, shapes[1], own.get("axis", 1))
    if node.op_type == "Conv" and len(shapes) > 1:
        return _weight(first, shapes[1], own.get("kernel_shape"), own.get("group", 1))
    result = found.get(node.output[0]) if node.output else None
    made = static_shape(result)
    if node.op_type == "Reshape" and first is not None and made is not None and prod(first) != prod(made):
        return f"{counted(prod(first), 'value')} cannot become {','.join(map(str, made))}"
    if result is not None and any(dim.dim_value < 0 for dim in result.tensor_type.shape.dim):
        return f"nothing is left of {printable(repr(node.output[0]))}"
    return ""


def _scales(x: tuple[int, ...] | None, scale: tuple[int, ...] | None, axis: int) -> str:
    if x is None or scale is None or len(scale) != 1 or scale == (1,):
        return ""
    if not -len(x) <= axis < len(x):
        return f"its axis {axis} is none of the {counted(len(x), 'axis', 'axes')}"
    if x[axis] != scale[0]:
        return f"{counted(scale[0], 'scale')} for the {counted(x[axis], 'value')} along axis {axis}"
    return ""


def _weight(
    x: tuple[int, ...] | None, weight: tuple[int, ...] | None, kernel: list[int] | None, group: int
) -> str:
    if weight is None:
        return ""
    if kernel is not None and tuple(kernel) != weight[2:]:
        return f"its kernel_shape is {list(kernel)}, and the weight has {list(weight[2:])}"
    if x is not None and len(x) > 1 and x[1] != weight[1] * group:
        channels = counted(x[1], "channel")
        return f"the image has {channels}, and the weight is for {weight[1] * group} (group={group})"
    return ""

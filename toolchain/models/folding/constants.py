"""Constant tensors, and errors for nodes whose inputs do not fit each other."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cached_property
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import first_line, printable, shortened
from toolchain.models.onnx_graph import attributes_of, called, type_name
from toolchain.quantities import counted

SMALL = 1 << 16
"""Largest size in bytes of a tensor used to infer shapes; larger ones are weights."""


MOST_DENSE = 1 << 30
"""Largest size in bytes of a sparse tensor written out with its zeros."""


def dense(sparse: onnx.SparseTensorProto) -> Array:
    """Return a sparse tensor with its zeros; indices are flat, or rows with one per axis.

    Raises
    ------
    ValueError
        Its parts do not fit together, or it would be too large.
    """
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    # In Python integers, which do not overflow: a few bytes can demand more zeros than fit in memory.
    if (size := math.prod(sparse.dims) * values.itemsize) > MOST_DENSE:
        raise ValueError(f"it would have {size} bytes with its zeros, at most {MOST_DENSE} are taken")
    array: Array = np.zeros(tuple(sparse.dims), values.dtype)
    try:
        array[np.unravel_index(indices, array.shape) if indices.ndim == 1 else tuple(indices.T)] = values
    except (IndexError, TypeError) as error:
        raise ValueError(f"its indices are not those of {list(sparse.dims)}") from error
    return array


class Constant:
    """A constant tensor, as an array and as a protobuf message; each form is made on first use."""

    def __init__(self, known: Array | onnx.TensorProto) -> None:
        if isinstance(known, onnx.TensorProto):
            self.tensor = known
        else:
            self.array = known

    @cached_property
    def array(self) -> Array:
        """Values of the tensor."""
        array: Array = numpy_helper.to_array(self.tensor)
        return array

    @cached_property
    def tensor(self) -> onnx.TensorProto:
        """The values as an ONNX tensor, whose name has no meaning."""
        return numpy_helper.from_array(self.array)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return tuple(self.tensor.dims) if "tensor" in self.__dict__ else self.array.shape

    @cached_property
    def type(self) -> onnx.TypeProto:
        """The type as ONNX writes it."""
        if "tensor" in self.__dict__:
            code = self.tensor.data_type
        else:
            code = helper.np_dtype_to_tensor_dtype(self.array.dtype)
        return helper.make_tensor_type_proto(code, self.shape)

    @property
    def nbytes(self) -> int:
        """Approximate size of the values in bytes."""
        return size_of(self.type) or 0


def static_shape(type_: onnx.TypeProto | None) -> tuple[int, ...] | None:
    """Return the extents in a type; None unless all of them are known."""
    if type_ is None or not type_.tensor_type.HasField("shape"):
        return None
    dims = type_.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") and dim.dim_value >= 0 for dim in dims):
        return None
    return tuple(dim.dim_value for dim in dims)


def size_of(type_: onnx.TypeProto | None) -> int | None:
    """Return how many bytes a tensor of this type has; None if that is unknown."""
    shape = static_shape(type_)
    if type_ is None or shape is None or not type_.tensor_type.elem_type:
        return None
    try:
        item = helper.tensor_dtype_to_np_dtype(type_.tensor_type.elem_type).itemsize
    except KeyError:
        return None
    return math.prod(shape) * int(item)


# Says in words of ours that the inputs of a node do not fit it.

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
    """Return a library's error message without the names of its exceptions and objects."""
    message = _KINDS.sub("", first_line(error))
    place = _OBJECT.search(message)
    return message if place is None else message[: place.start()].rstrip(" :,") or type(error).__name__


def check_fits(origin: str, node: onnx.NodeProto, types: Types, result_types: Types) -> None:
    """Refuse misfits that onnx overlooks and that the importer reports badly.

    Parameters
    ----------
    types
        Types of the inputs.
    result_types
        Types of the outputs.

    Raises
    ------
    UsageError
        A scale of QuantizeLinear or DequantizeLinear does not fit its axis, a kernel its weight or its
        image, or a Reshape its input.
    """
    if node.domain in ("", "ai.onnx") and (why := _problem(node, types, result_types)):
        raise misfit(origin, node, types, why)


def _problem(node: onnx.NodeProto, types: Types, result_types: Types) -> str:
    shapes = [static_shape(types.get(name)) for name in node.input]
    first = shapes[0] if shapes else None
    attributes = attributes_of(node)
    if node.op_type in ("QuantizeLinear", "DequantizeLinear") and not attributes.get("block_size"):
        return _scales(first, shapes[1], attributes.get("axis", 1))
    if node.op_type == "Conv" and len(shapes) > 1:
        return _weight(first, shapes[1], attributes.get("kernel_shape"), attributes.get("group", 1))
    result = result_types.get(node.output[0]) if node.output else None
    extents = static_shape(result)
    if (
        node.op_type == "Reshape"
        and first is not None
        and extents is not None
        and prod(first) != prod(extents)
    ):
        return f"{counted(prod(first), 'value')} cannot become {','.join(map(str, extents))}"
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

"""Constant tensors: those whose values are known."""

from __future__ import annotations

import math
from functools import cached_property

import onnx
from onnx import helper, numpy_helper

from toolchain.arrays import Array

SMALL = 1 << 16
"""Largest size in bytes of a tensor used to infer shapes; larger ones are weights."""


class Constant:
    """A constant tensor, as an array and as a protobuf message; each form is made on first use."""

    def __init__(self, known: Array | onnx.TensorProto) -> None:
        if isinstance(known, onnx.TensorProto):
            self.tensor = known
        else:
            self.array = known

    @cached_property
    def array(self) -> Array:
        """The values."""
        array: Array = numpy_helper.to_array(self.tensor)
        return array

    @cached_property
    def tensor(self) -> onnx.TensorProto:
        """The values as an ONNX tensor, whose name has no meaning."""
        return numpy_helper.from_array(self.array)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
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

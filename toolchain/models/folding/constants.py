"""Constant tensors: those whose values are known."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.arrays import Array

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

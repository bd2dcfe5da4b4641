"""Tensors as `.npy` members: version 1.0, little-endian, C order, never pickled."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.lib import format as npy

from toolchain.bundles.manifest import Tensor


def encode(array: np.ndarray[Any, Any], spec: Tensor) -> bytes:
    """Return the member that holds `array`.

    Raises
    ------
    ValueError
        It has not the shape and dtype of `spec`.
    """
    if tuple(array.shape) != spec.shape or array.dtype.name != spec.dtype:
        raise ValueError(f"{_form(array.dtype.name, array.shape)}, expected {_form(spec.dtype, spec.shape)}")
    buffer = io.BytesIO()
    ordered = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    npy.write_array(buffer, ordered, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def decode(data: bytes, spec: Tensor) -> np.ndarray[Any, Any]:
    """Return the array in a member: read-only, and a view of `data`.

    Raises
    ------
    ValueError
        It is no such file, or has not the shape and dtype of `spec`.
    """
    stream = io.BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("it is not a .npy file of version 1.0")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    wanted = np.dtype(spec.dtype).newbyteorder("<")
    if shape != spec.shape or dtype != wanted or fortran:
        order = " in Fortran order" if fortran else ""
        raise ValueError(f"{_form(dtype.str, shape)}{order}, expected {_form(wanted.str, spec.shape)}")
    start = stream.tell()
    if len(data) - start != spec.nbytes:
        raise ValueError(f"{len(data) - start} bytes of elements, expected {spec.nbytes}")
    return np.frombuffer(data, wanted, offset=start).reshape(shape)


def _form(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"

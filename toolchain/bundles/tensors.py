"""Tensors as `.npy` members: version 1.0, little-endian, C order, never pickled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toolchain.arrays import Array
from toolchain.bundles.manifest import Tensor
from toolchain.quantities import counted

_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNMENT = 64
_GROWTH = 21  # numpy reserves room for a first axis of 21 digits; so do we, to write the same bytes


def header(spec: Tensor) -> bytes:
    """Return the `.npy` header of a tensor, the same bytes that numpy.save writes.

    Readers compare with these bytes instead of parsing: numpy's parser evaluates Python literals and raises
    many kinds of errors for bad ones.
    """
    text = f"{{'descr': {stored_dtype(spec).str!r}, 'fortran_order': False, 'shape': {spec.shape!r}, }}"
    if spec.shape:
        text += " " * (_GROWTH - len(str(spec.shape[0])))
    return framed(text)


def framed(text: str) -> bytes:
    """Return the `.npy` header with this text: behind the magic, and padded as the format demands."""
    text += " " * (-(len(_MAGIC) + 2 + len(text) + 1) % _ALIGNMENT) + "\n"
    return _MAGIC + len(text).to_bytes(2, "little") + text.encode("ascii")


def encode(array: Array, spec: Tensor) -> bytes:
    """Return the bytes of the member for `array`.

    Raises
    ------
    ValueError
        The array's shape or dtype differs from `spec`.
    """
    if tuple(array.shape) != spec.shape or array.dtype.name != spec.dtype:
        raise ValueError(f"{form(array.dtype.name, array.shape)}, expected {form(spec.dtype, spec.shape)}")
    return header(spec) + array.astype(stored_dtype(spec), copy=False).tobytes(order="C")


def decode(data: bytes, spec: Tensor) -> Array:
    """Return the array in a member as a read-only view of `data`.

    Raises
    ------
    ValueError
        The member is no `.npy` file, or its shape or dtype differs from `spec`.
    """
    start = header(spec)
    if not data.startswith(start):
        raise ValueError(f"its header is not that of {form(spec.dtype, spec.shape)}")
    if len(data) - len(start) != spec.nbytes:
        raise ValueError(f"{counted(len(data) - len(start), 'byte')} of elements, expected {spec.nbytes}")
    return np.frombuffer(data, stored_dtype(spec), offset=len(start)).reshape(spec.shape)


def stored_dtype(spec: Tensor) -> np.dtype[Any]:
    """Return the dtype of a tensor's elements in a file, which are little-endian."""
    return np.dtype(spec.dtype).newbyteorder("<")


def form(dtype: str, shape: Sequence[int]) -> str:
    """Return type and shape as messages say them: `float32[1,3,224,224]`."""
    return f"{dtype}[{','.join(map(str, shape))}]"

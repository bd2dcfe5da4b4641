"""Tensors as `.npy` members: version 1.0, little-endian, C order, never pickled."""

from __future__ import annotations

from typing import Any

import numpy as np

from toolchain.bundles.manifest import Tensor

_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNMENT = 64
_GROWTH = 21  # numpy leaves room for a first axis of 21 digits; so do we, for equal bytes


def header(spec: Tensor) -> bytes:
    """Return what precedes the elements of `spec`: the bytes that numpy.save writes.

    Written and compared here rather than parsed: numpy's parser takes Python expressions, and meets
    bad ones with errors of many kinds.
    """
    text = f"{{'descr': {_dtype(spec).str!r}, 'fortran_order': False, 'shape': {spec.shape!r}, }}"
    if spec.shape:
        text += " " * (_GROWTH - len(str(spec.shape[0])))
    text += " " * (-(len(_MAGIC) + 2 + len(text) + 1) % _ALIGNMENT) + "\n"
    return _MAGIC + len(text).to_bytes(2, "little") + text.encode("ascii")


def encode(array: np.ndarray[Any, Any], spec: Tensor) -> bytes:
    """Return the member that holds `array`.

    Raises
    ------
    ValueError
        It has not the shape and dtype of `spec`.
    """
    if tuple(array.shape) != spec.shape or array.dtype.name != spec.dtype:
        raise ValueError(f"{_form(array.dtype.name, array.shape)}, expected {_form(spec.dtype, spec.shape)}")
    return header(spec) + array.astype(_dtype(spec), copy=False).tobytes(order="C")


def decode(data: bytes, spec: Tensor) -> np.ndarray[Any, Any]:
    """Return the array in a member: read-only, and a view of `data`.

    Raises
    ------
    ValueError
        It is no such file, or has not the shape and dtype of `spec`.
    """
    start = header(spec)
    if not data.startswith(start):
        raise ValueError(f"its header is not that of {_form(spec.dtype, spec.shape)}")
    if len(data) - len(start) != spec.nbytes:
        raise ValueError(f"{len(data) - len(start)} bytes of elements, expected {spec.nbytes}")
    return np.frombuffer(data, _dtype(spec), offset=len(start)).reshape(spec.shape)


def _dtype(spec: Tensor) -> np.dtype[Any]:
    return np.dtype(spec.dtype).newbyteorder("<")


def _form(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"

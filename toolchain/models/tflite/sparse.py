"""Writes sparse weights of `.tflite` files out with their zeros.

Such a tensor is stored as a tree: a level for each dimension, and for each dimension of its blocks. A level
is dense, or says for each node above where its children begin and which indices they have.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from toolchain.arrays import Array
from toolchain.quantities import counted

MOST_ZEROS = 64
"""Largest ratio of dense weights to the file's size; networks in use have 5 to 20 zeros per number."""

_SPARE = 1 << 26


def dense_bytes(
    schema: ModuleType, sparsity: Any, values: memoryview, shape: list[int], item: int, file_bytes: int
) -> memoryview:
    """Return the bytes of a sparse tensor with its zeros.

    Parameters
    ----------
    schema
        The package `tflite`.
    sparsity
        Its view of the tensor's `SparsityParameters`.
    values
        The bytes of what is stored.
    item
        Bytes of an element.

    Raises
    ------
    ValueError
        The parts contradict each other, or the result is many times the file.
    """
    total = math.prod(shape)
    if total * item > MOST_ZEROS * file_bytes + _SPARE:
        raise ValueError(f"it has {total * item} bytes with its zeros, the file {file_bytes}")
    rank, order = len(shape), _numbers(sparsity.TraversalOrderAsNumpy())
    blocked = _numbers(sparsity.BlockMapAsNumpy())
    if sorted(order) != list(range(rank + len(blocked))) or any(not 0 <= axis < rank for axis in blocked):
        raise ValueError("its order of dimensions")
    if sparsity.DimMetadataLength() != len(order) or len(set(blocked)) != len(blocked):
        raise ValueError("its dimensions")
    count, where = 1, np.zeros((len(order), 1), np.int64)
    for level, axis in enumerate(order):
        owners, indices = _children(schema, sparsity.DimMetadata(level), count, total)
        where = where[:, owners]
        where[axis] = indices
        count = len(indices)
    stored = np.frombuffer(values, np.dtype(f"V{item}"))
    if count != len(stored):
        raise ValueError(f"{counted(len(stored), 'value')} where its indices name {count}")
    sizes = {rank + place: _dense_size(sparsity, order, rank + place) for place in range(len(blocked))}
    places = where[:rank].copy()
    for place, axis in enumerate(blocked):
        places[axis] = places[axis] * sizes[rank + place] + where[rank + place]
    if any((places[axis] < 0).any() or (places[axis] >= shape[axis]).any() for axis in range(rank)):
        raise ValueError("an index outside of its shape")
    whole = np.zeros(shape, stored.dtype)
    whole[tuple(places)] = stored
    return memoryview(whole.tobytes())


def _children(schema: ModuleType, level: Any, count: int, most: int) -> tuple[Array, Array]:
    """Return for each node of a level the one above, and its index."""
    if level.Format() == schema.DimensionType.DENSE:
        size = level.DenseSize()
        if size < 1 or count * size > most:
            raise ValueError("a dimension without extent, or too large")
        return np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
    begins = _vector(schema, level.ArraySegmentsType(), level.ArraySegments())
    indices = _vector(schema, level.ArrayIndicesType(), level.ArrayIndices())
    lengths = np.diff(begins)
    if len(begins) != count + 1 or begins[0] != 0 or (lengths < 0).any() or begins[-1] != len(indices):
        raise ValueError("segments that do not fit the indices")
    return np.repeat(np.arange(count), lengths), indices


def _dense_size(sparsity: Any, order: list[int], dimension: int) -> int:
    return int(sparsity.DimMetadata(order.index(dimension)).DenseSize())


def _vector(schema: ModuleType, kind: int, table: Any) -> Array:
    names = {
        schema.SparseIndexVector.Int32Vector: "Int32Vector",
        schema.SparseIndexVector.Uint16Vector: "Uint16Vector",
        schema.SparseIndexVector.Uint8Vector: "Uint8Vector",
    }
    if kind not in names or table is None:
        raise ValueError("indices of an unknown type")
    vector = getattr(schema, names[kind])()
    vector.Init(table.Bytes, table.Pos)
    return (
        np.array(vector.ValuesAsNumpy(), np.int64).reshape(-1)
        if vector.ValuesLength()
        else np.zeros(0, np.int64)
    )


def _numbers(vector: Any) -> list[int]:
    return [] if isinstance(vector, int) else [int(number) for number in vector]

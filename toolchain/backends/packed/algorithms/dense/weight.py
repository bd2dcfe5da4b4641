"""The packed weight of a matrix product."""

from __future__ import annotations

from math import prod

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.dense.choice import DenseChoice
from toolchain.backends.packed.recognise.matmul import Matmul


def weight_shape(product: Matmul, choice: DenseChoice, lanes: int) -> tuple[int, ...]:
    """Return (batch, n / (N V), k, N V): a panel has N vectors of V columns side by side."""
    wide = choice.vectors * lanes
    batch = prod(
        extent for extent, read in zip(product.batch.extents, product.batch_of_b, strict=True) if read
    )
    return (batch, -(-product.columns.extent // wide), product.inner.extent, wide)


def pack_weight(weight: Array, product: Matmul, choice: DenseChoice, lanes: int) -> Array:
    """Return a constant right operand, packed in the order in which the function reads it."""
    batch, groups, inner, wide = weight_shape(product, choice, lanes)
    matrix = product.matrix(weight)
    padded = np.pad(matrix, [(0, 0), (0, 0), (0, groups * wide - matrix.shape[2])])
    return np.ascontiguousarray(padded.reshape(batch, inner, groups, wide).transpose(0, 2, 1, 3))

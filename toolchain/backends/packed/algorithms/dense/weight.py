"""The packed weight of a matrix product."""

from __future__ import annotations

from math import prod

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.dense.choice import DenseChoice
from toolchain.backends.packed.recognise.matmul import Matmul


def weight_shape(product: Matmul, choice: DenseChoice, lanes: int, depth: int = 1) -> tuple[int, ...]:
    """Return (batch, n / (N V), k / D, N V D): a panel has N vectors of V columns side by side.

    A column's D numbers, which one instruction multiplies, are neighbours.
    """
    wide = choice.vectors * lanes
    batch = prod(
        extent for extent, read in zip(product.batch.extents, product.batch_of_b, strict=True) if read
    )
    return (batch, -(-product.columns.extent // wide), product.inner.extent // depth, wide * depth)


def pack_weight(weight: Array, product: Matmul, choice: DenseChoice, lanes: int, depth: int = 1) -> Array:
    """Return a constant right operand, packed in the order in which the function reads it."""
    batch, groups, steps, row = shape = weight_shape(product, choice, lanes, depth)
    wide, matrix = row // depth, product.matrix(weight)
    padded = np.pad(matrix, [(0, 0), (0, 0), (0, groups * wide - matrix.shape[2])])
    split = padded.reshape(batch, steps, depth, groups, wide)
    return split.transpose(0, 3, 1, 4, 2).reshape(shape)

"""The packed weight of a product of matrices in tiles."""

from __future__ import annotations

from math import prod

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.gemm.choice import GemmChoice
from toolchain.backends.packed.algorithms.gemm.pointwise import pointwise
from toolchain.backends.packed.algorithms.implicit_gemm import weight
from toolchain.backends.packed.recognise.matmul import Matmul


def weight_shape(product: Matmul, choice: GemmChoice, lanes: int) -> tuple[int, ...]:
    """Return (matrices, tiles of columns, units, inner places of a unit, columns of a tile)."""
    batch = zip(product.batch.extents, product.batch_of_b, strict=True)
    matrices = prod(extent for extent, read in batch if read)
    return (matrices, *weight.weight_shape(pointwise(product), choice, lanes))


def pack_weight(value: Array, product: Matmul, choice: GemmChoice, lanes: int) -> Array:
    """Return a constant right operand, packed as `weight_shape`."""
    conv = pointwise(product)
    packed = [
        weight.pack_weight(matrix.T[:, :, None], conv, choice, lanes) for matrix in product.matrix(value)
    ]
    return np.stack(packed)

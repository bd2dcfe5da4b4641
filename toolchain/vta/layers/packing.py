"""Packs values as in DRAM: in blocks of channels, padded with zeros."""

from __future__ import annotations

import numpy as np

from toolchain.arrays import Array
from toolchain.vta.layers.layer import ConvLayer


def blocks_of(channels: int, block: int) -> int:
    """Return the number of blocks for a number of channels."""
    return -(-channels // block)


def pack_activation(value: Array, block: int) -> Array:
    """Pack int8 [channels, h, w] to [blocks, h, w, block]."""
    _channels, height, width = value.shape
    filled = _filled(value, block)
    return np.ascontiguousarray(filled.reshape(-1, block, height, width).transpose(0, 2, 3, 1))


def unpack_activation(packed: Array, channels: int) -> Array:
    """Unpack [blocks, h, w, block] to [channels, h, w]."""
    blocks, height, width, block = packed.shape
    return packed.transpose(0, 3, 1, 2).reshape(blocks * block, height, width)[:channels]


def pack_weight(weight: Array, block: int, tile_co: int, tile_ci: int) -> Array:
    """Pack int8 [oc, ic, kh, kw] to tiles, each contiguous in DRAM.

    Returns
    -------
    Array
        [co tiles, ci tiles, tile_co, tile_ci, kh, kw, block of outputs, block of inputs].
    """
    out, into = blocks_of(weight.shape[0], block), blocks_of(weight.shape[1], block)
    height, width = weight.shape[2:]
    filled = _filled(_filled(weight, block).swapaxes(0, 1), block).swapaxes(0, 1)
    split = filled.reshape(out // tile_co, tile_co, block, into // tile_ci, tile_ci, block, height, width)
    return np.ascontiguousarray(split.transpose(0, 3, 1, 4, 6, 7, 2, 5))


def pack_parameters(layer: ConvLayer, block: int) -> Array:
    """Return a layer's parameters as int32 [2, blocks, block]: biases, then right shifts."""
    rows = [_filled(values.astype(np.int32), block) for values in (layer.bias, layer.right)]
    return np.stack(rows).reshape(2, -1, block)


def pack_diagonal(left: Array, common: int, block: int) -> Array:
    """Return diagonal matrices that shift a residual left by `left - common`: int8 [blocks, block, block]."""
    exponents = left.astype(np.int32) - common
    powers = _filled(1 << exponents, block).reshape(-1, block)
    return (powers[:, :, None] * np.eye(block, dtype=np.int32)).astype(np.int8)


def _filled(value: Array, block: int) -> Array:
    missing = -value.shape[0] % block
    return np.pad(value, ((0, missing), *[(0, 0)] * (value.ndim - 1)))

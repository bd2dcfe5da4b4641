"""Computes the result of a layer with numpy: the reference for programs and simulators."""

from __future__ import annotations

import numpy as np

from toolchain.arrays import Array
from toolchain.vta.layers.layer import ConvLayer, ConvShape


def expected(layer: ConvLayer, source: Array, residual: Array | None = None) -> Array:
    """Compute the result of a layer.

    Parameters
    ----------
    source
        int8 [ic, h, w].
    residual
        int8 [oc, oh, ow]; None if the layer has no residual.

    Returns
    -------
    Array
        int8 [oc, oh, ow].
    """
    sums = convolved(layer.shape, layer.weight, source)
    if layer.left is not None:
        if residual is None:
            raise ValueError("this layer adds a residual, and none was given")
        sums += residual.astype(np.int64) << _across(layer.left)
    sums += _across(layer.bias)
    wrapped = sums.astype(np.int32)  # wraps around like ACC
    shifted = wrapped >> _across(layer.right).astype(np.int32)
    result: Array = np.clip(shifted, layer.low, layer.high).astype(np.int8)
    return result


def convolved(shape: ConvShape, weight: Array, source: Array) -> Array:
    """Compute the sums of a convolution; returns int64 [oc, oh, ow]."""
    padded = np.pad(source, ((0, 0), (shape.ph, shape.ph), (shape.pw, shape.pw))).astype(np.float64)
    sums = np.zeros((shape.oc, shape.oh * shape.ow))
    for y in range(shape.kh):
        for x in range(shape.kw):
            rows = slice(y, y + (shape.oh - 1) * shape.sh + 1, shape.sh)
            columns = slice(x, x + (shape.ow - 1) * shape.sw + 1, shape.sw)
            # Integers below 2**53 are exact in float64, which numpy multiplies fast.
            sums += weight[:, :, y, x].astype(np.float64) @ padded[:, rows, columns].reshape(shape.ic, -1)
    return sums.astype(np.int64).reshape(shape.oc, shape.oh, shape.ow)


def _across(channels: Array) -> Array:
    return channels.astype(np.int64).reshape(-1, 1, 1)

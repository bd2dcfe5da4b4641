"""The packed weight of a depthwise convolution."""

from __future__ import annotations

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.recognise.convolution import Convolution


def weight_shape(conv: Convolution, lanes: int) -> tuple[int, ...]:
    """Return (c / V, *kernel, V), with V lanes."""
    return (-(-conv.co // lanes), *conv.kernel, lanes)


def pack_weight(weight: Array, conv: Convolution, lanes: int) -> Array:
    """Return a weight (c, 1, *kernel), packed in the order in which the function reads it."""
    blocks, *kernel, _lanes = weight_shape(conv, lanes)
    around = [(0, -conv.co % lanes), *((0, 0) for _ in kernel)]
    blocked = np.pad(conv.reached(weight)[:, 0], around).reshape(blocks, lanes, *kernel)
    return np.copy(np.moveaxis(blocked, 1, -1), order="C")

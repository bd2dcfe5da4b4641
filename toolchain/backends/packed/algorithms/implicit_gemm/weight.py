"""The packed weight of an implicit GEMM."""

from __future__ import annotations

from math import prod

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.implicit_gemm.choice import CHANNELS, ImplicitGemmChoice
from toolchain.backends.packed.algorithms.implicit_gemm.steps import steps_of
from toolchain.backends.packed.recognise.convolution import Convolution


def weight_shape(conv: Convolution, choice: ImplicitGemmChoice, lanes: int) -> tuple[int, ...]:
    """Return (tiles of output channels, units, input channels of a unit, output channels of a tile).

    What a group copies in one step lies together.
    """
    wide = choice.channels(lanes)
    return (-(-conv.co // wide), steps_of(conv, choice, lanes).padded, lanes, wide)


def pack_weight(weight: Array, conv: Convolution, choice: ImplicitGemmChoice, lanes: int) -> Array:
    """Return a weight (co, ci, *kernel), packed as `weight_shape`.

    For tensor cores, the weights of a tile and two units are ordered as the lanes of warps hold them.
    """
    tiles, padded, _lanes, wide = shape = weight_shape(conv, choice, lanes)
    steps, taps = steps_of(conv, choice, lanes), prod(conv.kernel)
    flat = conv.reached(weight).reshape(conv.co, conv.ci, taps)
    filled = np.pad(flat, ((0, tiles * wide - conv.co), (0, steps.blocks * lanes - conv.ci), (0, 0)))
    units = filled.reshape(tiles, wide, steps.blocks, lanes, taps).transpose(0, 4, 2, 3, 1)
    ordered = units.reshape(tiles, steps.units, lanes, wide)
    full = np.pad(ordered, ((0, 0), (0, padded - steps.units), (0, 0), (0, 0)))
    if choice.on_tensor_cores:
        full = _pairs_of_halves(full) if choice.arithmetic == "f16" else _in_fragments(full)
    return full.reshape(shape)


def _in_fragments(units: Array) -> Array:
    """Return weights (tiles, units, 4, channels) as (tiles, pairs of units, products, lanes, 4).

    Lane 4 g + t has the weights of channels g and g + 8 and of inputs t and t + 4 (warp.cuh says so of `a`).
    """
    tiles, count, _lanes, wide = units.shape
    pairs = units.reshape(tiles, count // 2, 2, 4, wide // CHANNELS, 2, CHANNELS // 2)
    return pairs.transpose(0, 1, 4, 6, 3, 2, 5)


def _pairs_of_halves(units: Array) -> Array:
    """Return weights (tiles, units, 4, channels) as (tiles, fours of units, products, lanes, 4, 2).

    Lane 4 g + t has the weights of channels g and g + 8 and of the inputs 2 t, 2 t + 1, 2 t + 8, 2 t + 9.
    """
    tiles, count, _lanes, wide = units.shape
    fours = units.reshape(tiles, count // 4, 2, 2, 2, 2, wide // CHANNELS, 2, CHANNELS // 2)
    return fours.transpose(0, 1, 6, 8, 3, 4, 2, 7, 5)

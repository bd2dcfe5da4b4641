"""The tiles that winograd can use, the halo they need, and the transformed weight."""

from __future__ import annotations

from math import prod

import numpy as np

from toolchain.arrays import Array, transformed
from toolchain.backends.packed.algorithms.winograd.choice import WinogradChoice
from toolchain.backends.packed.algorithms.winograd.transforms import (
    matrices,
    points,
    shift,
    sizes,
    summed,
)
from toolchain.backends.packed.instruction import Products
from toolchain.backends.packed.recognise.convolution import Convolution


def tiles_of(conv: Convolution) -> list[tuple[int, ...]]:
    """Return the tiles that a convolution can be computed in; none where winograd does not apply.

    It has one group, and stride and dilation 1. Its tiles are squares, or of one row, or (of a kernel that
    has one column) of one column.
    """
    if len(conv.kernel) != 2 or conv.groups != 1 or {*conv.stride, *conv.dilation} != {1}:
        return []
    high, wide = map(sizes, conv.kernel)
    squares = [(m, m) for m in high if m in wide]
    columns = [(m, 1) for m in high if conv.kernel[1] == 1]
    return [*squares, *((1, m) for m in wide), *columns]


def halo(conv: Convolution, tile: tuple[int, ...]) -> tuple[int, ...]:
    """Return the zeros needed around the input so that every tile is inside it."""
    after = (
        max(0, -(-out // m) * m + taps - 1 - size - before)
        for out, m, taps, size, before in zip(conv.out, tile, conv.kernel, conv.size, conv.pads, strict=False)
    )
    return (*conv.pads[:2], *after)


def weight_shape(conv: Convolution, choice: WinogradChoice, lanes: int, depth: int = 1) -> tuple[int, ...]:
    """Return (co / (N V), points, ci in full blocks * taps without transform / D, N V D).

    An output's D inputs, which one instruction multiplies, are neighbours.
    """
    wide = choice.blocks * lanes
    inner = -(-conv.ci // lanes) * lanes * summed(conv.kernel, choice.tile)
    return (-(-conv.co // wide), prod(points(conv.kernel, choice.tile)), inner // depth, wide * depth)


def pack_weight(
    weight: Array, conv: Convolution, choice: WinogradChoice, lanes: int, products: Products
) -> Array:
    """Return a weight (co, ci, *kernel), transformed and packed in the order in which it is read.

    One of integers is shifted by `transforms.shift`, so that it is of integers too.
    """
    depth, plain = products.depth, products.plain
    bits = 0 if plain else shift(conv.kernel, choice.tile)
    if bits is None:
        raise ValueError(f"tiles of {choice.tile} have no transform in integers")
    outer, count, _inner, wide = weight_shape(conv, choice, lanes)
    padded = np.pad(conv.reached(weight), [(0, -conv.co % wide), (0, -conv.ci % lanes), (0, 0), (0, 0)])
    moved = transformed(padded, *(made.filters for made in map(matrices, choice.tile, conv.kernel)))
    taps = summed(conv.kernel, choice.tile)  # of the first axis, if it has no transform
    blocked = moved.reshape(outer, wide, -1, lanes // depth, depth, taps, count)
    shape = weight_shape(conv, choice, lanes, depth)
    ordered = np.copy(blocked.transpose(0, 6, 5, 2, 3, 1, 4), order="C").reshape(shape)
    return ordered if plain else (ordered * np.float32(2.0**bits)).astype(products.stored)

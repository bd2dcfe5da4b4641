"""The choice of the algorithm `implicit-gemm`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.loops.work_group import WARP
from toolchain.backends.packed.recognise.convolution import Convolution

Arithmetic = Literal["fma", "3xtf32", "tf32", "f16"]
"""How products are added up.

`fma`: multiply-adds of float32. The others: tensor cores, which multiply numbers of 11 significant bits and
add the products up in float32. `3xtf32`: each factor is the sum of two such numbers, and three of their
products are added: nearly float32. `tf32`: each factor is rounded to one. `f16`: factors are float16.
"""

CHANNELS, PLACES = 16, 8
"""Output channels and places of a product of tensor cores (`mma.m16n8k8`, and `mma.m16n8k16` for float16)."""


@dataclass(frozen=True)
class ImplicitGemmChoice(Choice):
    """The tile of a work group, and how its sums are divided among items and groups.

    A unit is a block of input channels under one tap of the kernel; sums go over all units.

    Attributes
    ----------
    blocks, columns
        Sums of a work item: blocks of output channels, and output places. With tensor cores: products of a
        warp along output channels, and along places.
    tile
        Work items (with tensor cores: warps) of a group along output channels, and along output places.
    slices
        Number of items in a group that share each sum: each adds up its share of the units of a step.
    splits
        Number of groups that share each sum; the last one to finish adds up their partial sums.
    depth
        Units that a group copies to shared memory in one step.
    stages
        Number of steps whose copies shared memory holds: one is computed while the others arrive.
    arithmetic
        How products are added up.
    """

    algorithm = "implicit-gemm"
    blocks: int = 1
    columns: int = 1
    tile: tuple[int, int] = (1, 1)
    slices: int = 1
    splits: int = 1
    depth: int = 1
    stages: int = 2

    arithmetic: Arithmetic = "fma"

    @property
    def on_tensor_cores(self) -> bool:
        """Whether tensor cores multiply."""
        return self.arithmetic != "fma"

    @property
    def factor(self) -> int:
        """Bytes of a factor."""
        return 2 if self.arithmetic == "f16" else 4

    @property
    def at_once(self) -> int:
        """Units that one product of tensor cores adds up; 1 without them."""
        return {"fma": 1, "3xtf32": 2, "tf32": 2, "f16": 4}[self.arithmetic]

    @property
    def items(self) -> int:
        """Work items of a group."""
        return prod(self.tile) * self.slices * (WARP if self.on_tensor_cores else 1)

    def channels(self, lanes: int) -> int:
        """Return the output channels of a group's tile."""
        return self.blocks * self.tile[0] * (CHANNELS if self.on_tensor_cores else lanes)

    @property
    def places(self) -> int:
        """Output places of a group's tile."""
        return self.columns * self.tile[1] * (PLACES if self.on_tensor_cores else 1)


# How the sums of an implicit GEMM are cut into units, steps and splits.


@dataclass(frozen=True)
class Steps:
    """The units of a convolution's sums, in order: for each tap all blocks of input channels.

    Attributes
    ----------
    blocks
        Number of blocks of input channels.
    units
        Number of units.
    each
        Steps of a group.
    padded
        Number of units with those that fill up the last steps; their weights and inputs are zeros.
    """

    blocks: int
    units: int
    each: int
    padded: int


def steps_of(conv: Convolution, choice: ImplicitGemmChoice, lanes: int) -> Steps:
    """Return the steps of a choice."""
    blocks = -(-conv.ci // lanes)
    units = blocks * prod(conv.kernel)
    each = -(-units // (choice.depth * choice.splits))
    return Steps(blocks, units, each, each * choice.depth * choice.splits)


# The packed weight of an implicit GEMM.


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

"""The choice of the algorithm `implicit-gemm`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.loops.work_group import WARP

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

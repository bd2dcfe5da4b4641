"""The choice of the algorithm `implicit-gemm`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from toolchain.backends.packed.algorithms.choice import Choice


@dataclass(frozen=True)
class ImplicitGemmChoice(Choice):
    """The tile of a work group, and how its sums are divided among items and groups.

    A unit is a block of input channels under one tap of the kernel; sums go over all units.

    Attributes
    ----------
    blocks, columns
        Sums of a work item: blocks of output channels, and output places.
    tile
        Work items of a group along output channels, and along output places.
    slices
        Number of items in a group that share each sum: each adds up its share of the units of a step.
    splits
        Number of groups that share each sum; the last one to finish adds up their partial sums.
    depth
        Units that a group copies to shared memory in one step.
    stages
        Number of steps whose copies shared memory holds: one is computed while the others arrive.
    """

    algorithm = "implicit-gemm"
    blocks: int = 1
    columns: int = 1
    tile: tuple[int, int] = (1, 1)
    slices: int = 1
    splits: int = 1
    depth: int = 1
    stages: int = 2

    @property
    def items(self) -> int:
        """Work items of a group."""
        return prod(self.tile) * self.slices

    @property
    def output_blocks(self) -> int:
        """Blocks of output channels of a group's tile."""
        return self.blocks * self.tile[0]

    @property
    def places(self) -> int:
        """Output places of a group's tile."""
        return self.columns * self.tile[1]

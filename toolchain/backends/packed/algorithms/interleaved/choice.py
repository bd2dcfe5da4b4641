"""The choice of the algorithm `interleaved`."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice, Order


@dataclass(frozen=True)
class InterleavedChoice(Choice):
    """A register tile of sums, for outputs with equal remainder by the stride.

    Attributes
    ----------
    blocks, columns
        Size of a tile: output blocks and output columns.
    order
        Outer parallel axis.
    """

    algorithm = "interleaved"
    blocks: int = 1
    columns: int = 1
    order: Order = "rows"

"""The choice of the algorithm `direct`."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice, Order


@dataclass(frozen=True)
class DirectChoice(Choice):
    """A register tile of sums, and the order in which tiles are computed.

    Attributes
    ----------
    blocks, columns
        Size of a tile: output blocks and output columns.
    rows
        Output rows of one parallel piece of work.
    order
        Outer parallel axis.
    flat
        Whether a tile may span several rows: whole rows of a small image, or the end of one row and the begin
        of the next.
    depth
        Input blocks per pass: their products are added for all tiles of a piece before the next pass; 0: one
        pass with all.
    """

    algorithm = "direct"
    blocks: int = 1
    columns: int = 1
    rows: int = 1
    order: Order = "rows"
    flat: bool = False
    depth: int = 0

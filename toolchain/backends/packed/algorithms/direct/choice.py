"""How a direct convolution is computed."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice, Order


@dataclass(frozen=True)
class DirectChoice(Choice):
    """A tile of sums in registers, and in which order the tiles are computed.

    Attributes
    ----------
    blocks, columns
        Of a tile: output blocks and output columns.
    rows
        Output rows of one parallel piece.
    order
        What runs in parallel first.
    flat
        A tile is whole rows (of small images), or goes from the end of a row to the begin of the next.
    depth
        Input blocks that are summed up for all tiles of a piece before the next ones are; 0: all.
    """

    algorithm = "direct"
    blocks: int = 1
    columns: int = 1
    rows: int = 1
    order: Order = "rows"
    flat: bool = False
    depth: int = 0

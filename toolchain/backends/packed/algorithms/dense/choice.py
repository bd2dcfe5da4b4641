"""The choice of the algorithm `dense`."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice, Order, knob


@dataclass(frozen=True)
class DenseChoice(Choice):
    """A register tile of sums, and the order in which tiles are computed.

    Attributes
    ----------
    vectors, rows
        Size of a tile: vectors of output columns, and output rows.
    tiles
        Tiles of one parallel piece of work, one below the other.
    order
        Outer parallel axis: rows of the output, or its columns.
    """

    algorithm = "dense"
    vectors: int = knob("blocks", 1)
    rows: int = knob("columns", 1)
    tiles: int = knob("rows", 1)
    order: Order = "rows"

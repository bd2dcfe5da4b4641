"""How a product of matrices is computed."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice, Order, knob


@dataclass(frozen=True)
class DenseChoice(Choice):
    """A tile of sums in registers, and in which order the tiles are computed.

    Attributes
    ----------
    vectors, rows
        Of a tile: vectors of columns of the output, and its rows.
    tiles
        Tiles of one parallel piece, one below the other.
    order
        What runs in parallel first: rows of the output, or its columns.
    """

    algorithm = "dense"
    vectors: int = knob("blocks", 1)
    rows: int = knob("columns", 1)
    tiles: int = knob("rows", 1)
    order: Order = "rows"

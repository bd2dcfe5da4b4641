"""The choice of the algorithm `winograd`."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice, Order, knob


@dataclass(frozen=True)
class WinogradChoice(Choice):
    """A winograd transform, the register tile of the products between its halves, and the order of the work.

    Attributes
    ----------
    blocks, columns
        Size of the register tile of the products: output blocks and tiles of outputs.
    tile_rows
        Rows of tiles in one parallel piece of work.
    tile
        Outputs computed together along each spatial axis, m of F(m, k); 1 means no transform along the axis:
        its taps are summed up directly.
    order
        Outer parallel axis.
    """

    algorithm = "winograd"
    blocks: int = 1
    columns: int = 1
    tile_rows: int = knob("rows", 1)
    tile: tuple[int, ...] = ()
    order: Order = "rows"

"""How a convolution is computed by winograd."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice, Order, knob


@dataclass(frozen=True)
class WinogradChoice(Choice):
    """Which transform, the sums in registers of the products between its two halves, and their order.

    Attributes
    ----------
    blocks, columns
        Of the products' sums in registers: output blocks and tiles of outputs.
    tile_rows
        Rows of tiles of one parallel piece.
    tile
        Outputs that are computed together along each spatial axis, m of F(m, k); 1: the taps of the axis are
        summed up as they are.
    order
        What runs in parallel first.
    """

    algorithm = "winograd"
    blocks: int = 1
    columns: int = 1
    tile_rows: int = knob("rows", 1)
    tile: tuple[int, ...] = ()
    order: Order = "rows"

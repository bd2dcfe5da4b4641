"""How a depthwise convolution is computed."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice


@dataclass(frozen=True)
class DepthwiseChoice(Choice):
    """Sums of some columns of one block in registers.

    Attributes
    ----------
    columns
        Output columns of a tile.
    rows
        Output rows of one parallel piece.
    """

    algorithm = "depthwise"
    columns: int = 1
    rows: int = 1

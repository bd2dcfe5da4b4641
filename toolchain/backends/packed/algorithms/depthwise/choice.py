"""The choice of the algorithm `depthwise`."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice


@dataclass(frozen=True)
class DepthwiseChoice(Choice):
    """A register tile: sums of some columns of one block of channels.

    Attributes
    ----------
    columns
        Output columns of a tile.
    rows
        Output rows of one parallel piece of work.
    """

    algorithm = "depthwise"
    columns: int = 1
    rows: int = 1

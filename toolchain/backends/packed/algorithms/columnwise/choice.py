"""The choice of the algorithm `columnwise`."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice, knob


@dataclass(frozen=True)
class ColumnwiseChoice(Choice):
    """A register tile of sums.

    Attributes
    ----------
    channels, vectors
        Size of a tile: output channels, and vectors of neighbouring columns.
    rows
        Output rows of one parallel piece of work.
    """

    algorithm = "columnwise"
    channels: int = knob("blocks", 1)
    vectors: int = knob("columns", 1)
    rows: int = 1

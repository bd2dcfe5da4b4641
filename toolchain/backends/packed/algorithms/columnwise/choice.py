"""How a convolution of few output channels is computed."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice, knob


@dataclass(frozen=True)
class ColumnwiseChoice(Choice):
    """A tile of sums in registers.

    Attributes
    ----------
    channels, vectors
        Of a tile: output channels, and vectors of neighbouring columns.
    rows
        Output rows of one parallel piece.
    """

    algorithm = "columnwise"
    channels: int = knob("blocks", 1)
    vectors: int = knob("columns", 1)
    rows: int = 1

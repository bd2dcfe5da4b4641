"""How a transposed convolution is computed."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.choice import Choice, Order


@dataclass(frozen=True)
class InterleavedChoice(Choice):
    """A tile of sums in registers, of outputs with the same remainder by the stride.

    Attributes
    ----------
    blocks, columns
        Of a tile: output blocks and output columns.
    order
        What runs in parallel first.
    """

    algorithm = "interleaved"
    blocks: int = 1
    columns: int = 1
    order: Order = "rows"

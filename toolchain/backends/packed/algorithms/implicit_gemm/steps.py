"""How the sums of an implicit GEMM are cut into units, steps and splits."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice
from toolchain.backends.packed.recognise.convolution import Convolution


@dataclass(frozen=True)
class Steps:
    """The units of a convolution's sums, in order: for each tap all blocks of input channels.

    Attributes
    ----------
    blocks
        Number of blocks of input channels.
    units
        Number of units.
    each
        Steps of a group.
    padded
        Number of units with those that fill up the last steps; their weights and inputs are zeros.
    """

    blocks: int
    units: int
    each: int
    padded: int


def steps_of(conv: Convolution, choice: ImplicitGemmChoice, lanes: int) -> Steps:
    """Return the steps of a choice."""
    blocks = -(-conv.ci // lanes)
    units = blocks * prod(conv.kernel)
    each = -(-units // (choice.depth * choice.splits))
    return Steps(blocks, units, each, each * choice.depth * choice.splits)

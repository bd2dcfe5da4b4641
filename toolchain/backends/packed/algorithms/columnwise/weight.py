"""Order of a row's taps by the input phase that they read, and the weight packed in that order.

With stride s, output o meets input s * o + t at tap t. The inputs with equal remainder by s, a phase, are
neighbours in the window: there tap t = s * j + phase meets place o + j.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.columnwise.choice import ColumnwiseChoice
from toolchain.backends.packed.recognise.convolution import Convolution


@dataclass(frozen=True)
class Taps:
    """Taps of a row: `each` taps for each of `phases` phases, from phase `first`; stored from `start`."""

    first: int
    phases: int
    each: int
    start: int


def taps_of(conv: Convolution) -> list[Taps]:
    """Return the taps of a row by phase; the first phases may have one tap more than the others."""
    kernel, stride = conv.kernel[-1], conv.stride[-1]
    few, more = divmod(kernel, stride)
    found = [Taps(0, more, few + 1, 0), Taps(more, stride - more, few, more * (few + 1))]
    return [each for each in found if each.phases and each.each]


def reach(conv: Convolution) -> int:
    """Return how many places beyond an output's own place its taps read in a phase."""
    return (conv.kernel[-1] - 1) * conv.dilation[-1] // conv.stride[-1]


def weight_shape(conv: Convolution, choice: ColumnwiseChoice) -> tuple[int, ...]:
    """Return (co / C, ci of a group, *kernel's rows, taps of a row by phase * C), C channels per tile."""
    *above, taps = conv.kernel
    return (conv.co // choice.channels, conv.ci // conv.groups, *above, taps * choice.channels)


def pack_weight(weight: Array, conv: Convolution, choice: ColumnwiseChoice) -> Array:
    """Return a weight (co, ci / groups, *kernel), packed in the order in which the function reads it."""
    stride = conv.stride[-1]
    order = [tap for phase in range(stride) for tap in range(phase, conv.kernel[-1], stride)]
    sorted_taps = conv.reached(weight)[..., order]
    tiles = sorted_taps.reshape(-1, choice.channels, prod(sorted_taps.shape[1:]))
    return tiles.transpose(0, 2, 1).reshape(weight_shape(conv, choice))

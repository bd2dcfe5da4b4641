"""The choice of the algorithm `interleaved`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Choice, Order
from toolchain.backends.packed.recognise.transposed import OutputPhase, Transposed


@dataclass(frozen=True)
class InterleavedChoice(Choice):
    """A register tile of sums, for outputs with equal remainder by the stride.

    Attributes
    ----------
    blocks, columns
        Size of a tile: output blocks and output columns.
    order
        Outer parallel axis.
    """

    algorithm = "interleaved"
    blocks: int = 1
    columns: int = 1
    order: Order = "rows"


# The packed weight of a transposed convolution.


def weight_shape(
    conv: Transposed, choice: InterleavedChoice, lanes: int, input_lanes: int
) -> tuple[int, ...]:
    """Return (co / (N V), blocks of VI input channels that meet them, taps by phase, VI, N V)."""
    wide = choice.blocks * lanes
    inputs, _shared = inputs_of(conv, wide, input_lanes)
    return (-(-conv.co // wide), inputs, prod(conv.kernel), input_lanes, wide)


def pack_weight(
    weight: Array, conv: Transposed, choice: InterleavedChoice, lanes: int, input_lanes: int
) -> Array:
    """Return a weight (ci, co / groups, *kernel), packed in the order in which the function reads it."""
    groups, inputs, _taps, _lanes, wide = weight_shape(conv, choice, lanes, input_lanes)
    theirs, ours = conv.ci // conv.groups, conv.co // conv.groups
    channels = -(-conv.ci // input_lanes) * input_lanes
    full = np.zeros((channels, groups * wide, *conv.kernel), weight.dtype)
    for group in range(conv.groups):
        full[group * theirs : (group + 1) * theirs, group * ours : (group + 1) * ours] = weight[
            group * theirs : (group + 1) * theirs
        ]
    order = [
        tuple(each.first + tap * each.step for each, tap in zip(phase, taps, strict=True))
        for phase in phases_of(conv)
        for taps in np.ndindex(*(each.taps for each in phase))
    ]
    sorted_taps = np.stack([full[(slice(None), slice(None), *tap)] for tap in order])
    blocked = sorted_taps.reshape(len(order), -1, input_lanes, groups, wide).transpose(3, 1, 0, 2, 4)
    _count, shared = inputs_of(conv, wide, input_lanes)
    starts = [group // shared * inputs if shared else 0 for group in range(groups)]
    chosen = [blocked[group, start : start + inputs] for group, start in enumerate(starts)]
    return np.ascontiguousarray(np.stack(chosen))


def phases_of(conv: Transposed) -> list[tuple[OutputPhase, ...]]:
    """Return all combinations of the axes' phases, one tuple for each."""
    return list(product(*(conv.phases(axis) for axis in range(len(conv.out)))))


def inputs_of(conv: Transposed, wide: int, input_lanes: int) -> tuple[int, int]:
    """Return the number of input blocks that an output group needs, and how many output groups share them.

    Group g reads blocks from g // shared * count on; shared = 0 means that every group reads all blocks.
    """
    theirs, ours = conv.ci // conv.groups, conv.co // conv.groups
    every = -(-conv.ci // input_lanes)
    if wide % ours == 0 and wide // ours * theirs % input_lanes == 0:
        count = wide // ours * theirs // input_lanes
        if -(-conv.co // wide) * count <= every:
            return count, 1
    if ours % wide == 0 and theirs % input_lanes == 0:
        return theirs // input_lanes, ours // wide
    return every, 0

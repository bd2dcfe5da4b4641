"""The packed weight of a direct convolution."""

from __future__ import annotations

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.direct.groups import merged
from toolchain.backends.packed.recognise.convolution import Convolution


def weight_shape(
    conv: Convolution, choice: DirectChoice, lanes: int, input_lanes: int, depth: int = 1
) -> tuple[int, ...]:
    """Return (co / (N V), ci of a group / VI, *kernel, VI / D, N V D).

    N blocks of V outputs lie side by side. An output's D inputs, which one instruction multiplies, are
    neighbours.
    """
    wide = choice.blocks * lanes
    _groups, ci, _co = merged(conv, lanes)
    return (-(-conv.co // wide), -(-ci // input_lanes), *conv.kernel, input_lanes // depth, wide * depth)


def pack_weight(
    weight: Array, conv: Convolution, choice: DirectChoice, lanes: int, input_lanes: int, depth: int = 1
) -> Array:
    """Return a weight (co, ci / groups, *kernel), packed in the order in which the function reads it."""
    outer, inner, *kernel, _steps, _row = shape = weight_shape(conv, choice, lanes, input_lanes, depth)
    wide = choice.blocks * lanes
    weight = _merge(conv.reached(weight), conv, lanes)
    around = [(0, -conv.co % wide), (0, -weight.shape[1] % input_lanes), *((0, 0) for _ in kernel)]
    blocked = np.pad(weight, around).reshape(outer, wide, inner, input_lanes // depth, depth, *kernel)
    taps = range(5, 5 + len(kernel))
    return np.ascontiguousarray(blocked.transpose(0, 2, *taps, 3, 1, 4)).reshape(shape)


def _merge(weight: Array, conv: Convolution, lanes: int) -> Array:
    """Return the weight of the merged groups: block-diagonal, with zeros elsewhere."""
    groups, ci, co = merged(conv, lanes)
    outputs, own = conv.co // conv.groups, weight.shape[1]
    many = co // outputs
    if many == 1:
        return weight
    wide = np.zeros((groups, many, outputs, many, own, *conv.kernel), weight.dtype)
    none = [(0, groups * many * outputs - conv.co), *((0, 0) for _ in weight.shape[1:])]
    split = np.pad(weight, none).reshape(groups, many, outputs, own, *conv.kernel)
    for each in range(many):
        wide[:, each, :, each] = split[:, each]
    return wide.reshape(groups * co, ci, *conv.kernel)[: conv.co]

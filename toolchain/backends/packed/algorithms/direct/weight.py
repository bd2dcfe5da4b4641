"""The packed weight of a direct convolution."""

from __future__ import annotations

from math import prod

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.direct.groups import merged
from toolchain.backends.packed.algorithms.direct.stripes import Stripe, stripes
from toolchain.backends.packed.recognise.convolution import Convolution


def stripe_shapes(
    conv: Convolution, choice: DirectChoice, lanes: int, input_lanes: int, depth: int = 1
) -> list[tuple[Stripe, tuple[int, ...]]]:
    """Return each stripe with the shape of its weight: (groups, ci / VI, *kernel, VI / D, N V D).

    N blocks of V outputs lie side by side. An output's D inputs, which one instruction multiplies, are
    neighbours.
    """
    _groups, ci, _co = merged(conv, lanes)
    inner = (-(-ci // input_lanes), *conv.kernel, input_lanes // depth)
    return [
        (stripe, (stripe.groups, *inner, stripe.blocks * lanes * depth))
        for stripe in stripes(-(-conv.co // lanes), choice.blocks)
    ]


def weight_shape(
    conv: Convolution, choice: DirectChoice, lanes: int, input_lanes: int, depth: int = 1
) -> tuple[int, ...]:
    """Return the shape of the only stripe's weight, or the numbers of all stripes, one behind the other."""
    shapes = [shape for _stripe, shape in stripe_shapes(conv, choice, lanes, input_lanes, depth)]
    return shapes[0] if len(shapes) == 1 else (sum(map(prod, shapes)),)


def pack_weight(
    weight: Array, conv: Convolution, choice: DirectChoice, lanes: int, input_lanes: int, depth: int = 1
) -> Array:
    """Return a weight (co, ci / groups, *kernel), packed in the order in which the function reads it."""
    weight, made = _merge(conv.reached(weight), conv, lanes), []
    for stripe, shape in stripe_shapes(conv, choice, lanes, input_lanes, depth):
        first, wide = stripe.first * lanes, stripe.blocks * lanes
        made.append(_pack(weight[first : first + stripe.groups * wide], shape, wide, input_lanes, depth))
    return made[0] if len(made) == 1 else np.concatenate([each.ravel() for each in made])


def _pack(weight: Array, shape: tuple[int, ...], wide: int, input_lanes: int, depth: int) -> Array:
    """Return the packed weight of a stripe whose groups are `wide` outputs."""
    outer, inner, *kernel, _steps, _row = shape
    beyond = outer * wide - len(weight), inner * input_lanes - weight.shape[1]
    around = [*((0, each) for each in beyond), *((0, 0) for _ in kernel)]
    blocked = np.pad(weight, around).reshape(outer, wide, inner, input_lanes // depth, depth, *kernel)
    taps = range(5, 5 + len(kernel))
    return blocked.transpose(0, 2, *taps, 3, 1, 4).reshape(shape)


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

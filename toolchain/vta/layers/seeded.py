"""Makes convolutions with random values, to compile without a network."""

from __future__ import annotations

import math

import numpy as np

from toolchain.arrays import Array
from toolchain.models.quantising.powers_of_two.limits import LEAST_RIGHT, MOST_DIAGONAL, MOST_RIGHT
from toolchain.vta.layers.layer import ConvLayer, ConvShape
from toolchain.vta.layers.region import Region, RegionLayer

_SPREAD = 74  # standard deviation of integers from -127 to 127
_RESULT = 50  # wanted standard deviation of results: some are clipped, few are zero


def seeded_layer(shape: ConvShape, seed: int, residual: bool = False) -> ConvLayer:
    """Return a random layer whose results use all eight bits and are sometimes clipped."""
    random = np.random.default_rng(seed)
    sums = _SPREAD**2 * math.sqrt(shape.ic * shape.taps)
    middle = round(math.log2(sums / _RESULT))
    right = np.clip(middle + random.integers(-1, 2, shape.oc), LEAST_RIGHT, MOST_RIGHT)
    left = None
    if residual:
        left = np.clip(middle - random.integers(0, 3, shape.oc), 0, None)
        left = np.maximum(left, left.max() - MOST_DIAGONAL)
    bias = random.normal(0, sums / 4, shape.oc).astype(np.int32) + (1 << right - 1)
    return ConvLayer(
        shape,
        random.integers(-127, 128, (shape.oc, shape.ic, shape.kh, shape.kw), dtype=np.int8),
        bias.astype(np.int32),
        right,
        left,
    )


def seeded_region(layer: ConvLayer, seed: int) -> tuple[Region, dict[str, Array]]:
    """Return a region of one layer, and random values for its inputs."""
    residual = None if layer.left is None else "residual"
    named = ["source", *([residual] if residual else [])]
    region = Region([RegionLayer(layer, "source", "result", residual)], named, ["result"])
    return region, seeded_inputs(region, seed)


def seeded_inputs(region: Region, seed: int) -> dict[str, Array]:
    """Return random values for the inputs of a region."""
    random = np.random.default_rng([seed, 1])
    shapes = region.shapes()
    return {name: random.integers(-127, 128, shapes[name], dtype=np.int8) for name in region.inputs}

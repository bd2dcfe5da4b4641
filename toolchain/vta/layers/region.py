"""A region of a network: layers that are compiled to one program."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.arrays import Array
from toolchain.errors import ToolchainError
from toolchain.models.quantising.shift_exponents import LEAST_RIGHT, MOST_DIAGONAL, MOST_RIGHT
from toolchain.vta.layers.knobs import Knobs
from toolchain.vta.layers.layer import ConvLayer, ConvShape


@dataclass(frozen=True)
class RegionLayer:
    """A layer of a region.

    Attributes
    ----------
    source, residual, result
        Names of the values that it reads and writes.
    knobs
        How it is cut; None: the knobs with the fewest estimated cycles.
    """

    layer: ConvLayer
    source: str
    result: str
    residual: str | None = None
    knobs: Knobs | None = None


@dataclass(frozen=True)
class Region:
    """Layers that VTA computes together, by one program; in the program's order.

    Attributes
    ----------
    inputs, outputs
        Names of the values that come from outside the region, and of those that are used outside.
    """

    layers: Sequence[RegionLayer]
    inputs: Sequence[str]
    outputs: Sequence[str]

    def shapes(self) -> dict[str, tuple[int, int, int]]:
        """Return channels, rows and columns of every value.

        Raises
        ------
        ToolchainError
            The layers contradict each other.
        """
        found: dict[str, tuple[int, int, int]] = {}
        for number, (name, shape, made) in enumerate(self._values()):
            if made and name in found:
                raise ToolchainError(f"{name} is computed, but exists already", _REPORT)
            if not made and name not in found:
                if name not in self.inputs:
                    raise ToolchainError(f"{name} is used before it is computed", _REPORT)
                found[name] = shape
            if found.setdefault(name, shape) != shape:
                raise ToolchainError(f"{name} is {found[name]} and {shape}, in use {number}", _REPORT)
        if missing := [name for name in (*self.inputs, *self.outputs) if name not in found]:
            raise ToolchainError(f"no layer has {', '.join(missing)}", _REPORT)
        return found

    def _values(self) -> Iterator[tuple[str, tuple[int, int, int], bool]]:
        """Yield each use of a value: its name, its shape, and whether it is computed there."""
        for each in self.layers:
            shape = each.layer.shape
            yield each.source, (shape.ic, shape.h, shape.w), False
            result = (shape.oc, shape.oh, shape.ow)
            if (each.layer.left is None) != (each.residual is None):
                raise ToolchainError(f"{each.result}: left shifts and a residual come together", _REPORT)
            if each.residual is not None:
                yield each.residual, result, False
            yield each.result, result, True


_REPORT = "this is a defect of the toolchain: please report it with the network"


# Makes convolutions with random values, to compile without a network.

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

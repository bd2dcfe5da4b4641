"""A region of a network: layers that are compiled to one program, and the knobs that cut each of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from toolchain.arrays import Array
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import shortened
from toolchain.models.quantising.shift_exponents import LEAST_RIGHT, MOST_DIAGONAL, MOST_RIGHT
from toolchain.vta.layers.layer import ConvLayer, ConvShape

# The knobs that cut a convolution into pieces, as in Apache TVM's tutorials on VTA.

_EXAMPLE = "tile_h=8,tile_w=56,tile_ci=1,tile_co=2,oc_nthread=1,h_nthread=2"
_ONE = ("tile_b", "oc_nthread", "h_nthread")  # may be left out, and are 1 then


@dataclass(frozen=True, order=True)
class Knobs:
    """A way to cut a convolution.

    Attributes
    ----------
    tile_h, tile_w
        Rows and columns of the result in a piece.
    tile_ci, tile_co
        Blocks of input channels that are loaded at once, and blocks of output channels in a piece.
    oc_nthread, h_nthread
        Number of pieces that are computed alternately, neighbours in the output channels or in the rows, so
        that one piece computes while the operands of another are loaded (virtual threads).
    tile_b
        Number of images in a piece.
    """

    tile_h: int
    tile_w: int
    tile_ci: int
    tile_co: int
    oc_nthread: int = 1
    h_nthread: int = 1
    tile_b: int = 1

    @property
    def contexts(self) -> int:
        """Number of pieces that are computed alternately."""
        return self.oc_nthread * self.h_nthread

    def decisions(self) -> dict[str, int]:
        """Return the value of each knob by name, in the order of Apache TVM's tutorials on VTA."""
        values = asdict(self)
        return {"tile_b": values.pop("tile_b"), **values}

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.decisions().items())


def read_knobs(text: str) -> Knobs:
    """Parse knobs from text such as `tile_h=8,tile_w=56,…`.

    Raises
    ------
    UsageError
        A knob is unknown, missing, given twice, or not a positive whole number.
    """
    values: dict[str, int] = {}
    names = tuple(Knobs.__dataclass_fields__)
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or name not in names:
            raise _refused(text, f"{shortened(part)!r} is not a knob; the knobs are: {', '.join(names)}")
        if name in values:
            raise _refused(text, f"{name} is given twice")
        if not (value.isascii() and value.isdigit() and len(value) < 9 and int(value)):
            raise _refused(text, f"{name} is {shortened(value)!r}, not a positive whole number")
        values[name] = int(value)
    if missing := [name for name in names if name not in values and name not in _ONE]:
        raise _refused(text, f"it lacks {', '.join(missing)}")
    return Knobs(**values)


def _refused(text: str, reason: str) -> UsageError:
    return UsageError(f"knobs {shortened(text)!r}: {reason}", f"such as {_EXAMPLE}")


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
        shapes: dict[str, tuple[int, int, int]] = {}
        for number, (name, shape, computed) in enumerate(self._values()):
            if computed and name in shapes:
                raise ToolchainError(f"{name} is computed, but exists already", _REPORT)
            if not computed and name not in shapes:
                if name not in self.inputs:
                    raise ToolchainError(f"{name} is used before it is computed", _REPORT)
                shapes[name] = shape
            if shapes.setdefault(name, shape) != shape:
                raise ToolchainError(f"{name} is {shapes[name]} and {shape}, in use {number}", _REPORT)
        if missing := [name for name in (*self.inputs, *self.outputs) if name not in shapes]:
            raise ToolchainError(f"no layer has {', '.join(missing)}", _REPORT)
        return shapes

    def _values(self) -> Iterator[tuple[str, tuple[int, int, int], bool]]:
        """Yield each use of a value: its name, its shape, and whether it is computed there."""
        for conv in self.layers:
            shape = conv.layer.shape
            yield conv.source, (shape.ic, shape.h, shape.w), False
            result = (shape.oc, shape.oh, shape.ow)
            if (conv.layer.left is None) != (conv.residual is None):
                raise ToolchainError(f"{conv.result}: left shifts and a residual come together", _REPORT)
            if conv.residual is not None:
                yield conv.residual, result, False
            yield conv.result, result, True


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

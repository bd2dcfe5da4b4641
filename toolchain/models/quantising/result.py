"""The result of quantising a network, and the accuracy that it costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.models.deviation import Ends, divide, parts_of
from toolchain.models.options import MOST_PARTS
from toolchain.models.output_kinds import joined_parts, softmax_outputs
from toolchain.models.quantising.calibration import Inputs, Tapped

# Measures the accuracy loss of quantising: how far integers are from the floats they represent.

SATURATED = 0.01
"""Share of clipped values in a layer above which the user is warned."""

COARSE = {"global-scale": "power-of-two"}
"""Quantizer with one scale for all layers -> the one that gives each tensor its own."""

_RANDOM = (
    "calibrated and judged by {} random inputs: the scales will not fit real data, and a trained network may "
    "lose far more; give --calibrate NAME=FILE.npy"
)
_MOST_DB = 200.0
"""SQNR in dB that is reported if nothing was lost."""


@dataclass(frozen=True)
class Watched:
    """A layer whose loss is measured.

    Attributes
    ----------
    name
        The layer's name.
    result
        The tensor that it computes, in the float graph.
    integers
        The same tensor's integers, in the quantised graph.
    scale, zero
        The integer n stands for (n - zero) * scale.
    low, high
        Smallest and largest integer.
    """

    name: str
    result: str
    integers: str
    scale: float
    zero: int
    low: int
    high: int

    def real(self, integers: Array) -> Array:
        """Return the numbers that integers stand for, in float32."""
        return np.asarray((integers.astype(np.float32) - self.zero) * np.float32(self.scale))

    def clipped(self, values: Array) -> int:
        """Return how many values are more than half a step outside the range of the integers."""
        low, high = ((end - self.zero) * self.scale for end in (self.low - 0.5, self.high + 0.5))
        return int(np.count_nonzero((values < low) | (values > high)))


@dataclass(frozen=True)
class LayerCost:
    """A layer's name, its signal-to-quantisation-noise ratio in dB, and its share of clipped values."""

    name: str
    sqnr_db: float
    clipped: float


@dataclass(frozen=True)
class QuantisingCost:
    """The accuracy loss of quantising a network.

    Attributes
    ----------
    images
        Number of images used: rows of the inputs' first dimension.
    random
        The images were random, so the loss for real images is unknown.
    quantizer
        As in `quantise`.
    layers
        The quantised layers in the order of the graph.
    sqnr_db
        SQNR in dB of that part of an output which lost most; boxes of a detector do not hide its scores.
    part
        Which part that is, such as `detections[:, 4:84]`; empty: the network's only output.
    top1, top5
        Share of rows of a `[rows, classes]` output whose former class is still the first, or among the first
        five; None without such an output of floats.
    """

    images: int
    random: bool
    quantizer: str
    layers: tuple[LayerCost, ...]
    sqnr_db: float
    top1: float | None
    top5: float | None
    part: str = ""

    def warnings(self) -> list[str]:
        """Return a warning if the images were random, and one for each layer that clips too many values."""
        lines = [_RANDOM.format(self.images)] if self.random else []
        if self.quantizer in COARSE:
            way_out = f"give each tensor a scale of its own: --quantizer {COARSE[self.quantizer]}"
        else:
            more = "" if self.random else "more "
            way_out = f"calibrate with {more}images that the network is made for: --calibrate NAME=FILE.npy"
        return lines + [
            f"{layer.name}: {layer.clipped:.1%} of its values are beyond 8 bits and were clipped; {way_out}"
            for layer in self.layers
            if layer.clipped > SATURATED
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object for `--json`."""
        return asdict(self)


def cost_of(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    layers: Sequence[Watched],
    images: Sequence[Inputs],
    origin: str,
    *,
    random: bool,
    quantizer: str,
) -> QuantisingCost:
    """Compute both graphs for `images`, batches of them, and compare.

    Parameters
    ----------
    random, quantizer
        As in `QuantisingCost`.
    """
    outputs = [output.name for output in before.graph.output]
    floats = Tapped(before, [*(layer.result for layer in layers), *outputs], origin)
    whole = Tapped(after, [*(layer.integers for layer in layers), *outputs], origin)
    noise = [_Noise() for _ in layers]
    lost_in_parts = _NoiseOfParts(before)
    clipped = [[0, 0] for _ in layers]
    rows: list[tuple[Array, Array]] = []
    for inputs in images:
        expected, got = floats.values(inputs), whole.values(inputs)
        for layer, lost, beyond in zip(layers, noise, clipped, strict=True):
            lost.add(expected[layer.result], layer.real(got[layer.integers]))
            beyond[0] += layer.clipped(expected[layer.result])
            beyond[1] += expected[layer.result].size
        for name in outputs:
            if np.issubdtype(expected[name].dtype, np.floating):
                lost_in_parts.add(name, expected[name], got[name])
                if expected[name].ndim == 2 and expected[name].shape[1] > 1:
                    rows.append((expected[name], got[name]))
    part, sqnr_db = lost_in_parts.worst()
    return QuantisingCost(
        images=sum(_rows(inputs) for inputs in images),
        random=random,
        quantizer=quantizer,
        layers=tuple(
            LayerCost(layer.name, lost.db, _share(*beyond))
            for layer, lost, beyond in zip(layers, noise, clipped, strict=True)
        ),
        sqnr_db=sqnr_db,
        top1=_agreement(rows, 1),
        top5=_agreement(rows, 5),
        part=part,
    )


def _rows(inputs: Inputs) -> int:
    first = next(iter(inputs.values()))
    return len(first) if first.ndim else 1


class _Noise:
    """Accumulates the power of a signal and of its quantisation noise."""

    def __init__(self) -> None:
        self._signal = self._noise = 0.0

    def add(self, expected: Array, got: Array) -> None:
        self._signal += float(np.square(expected, dtype=np.float64).sum())
        self._noise += float(np.square(got - expected, dtype=np.float64).sum())

    @property
    def db(self) -> float:
        if not self._noise:
            return _MOST_DB
        return round(10 * math.log10(max(self._signal, 1e-300) / self._noise), 2)


class _NoiseOfParts:
    """Accumulates signal and noise of each part of a network's outputs."""

    def __init__(self, network: onnx.ModelProto) -> None:
        self._joined, self._probabilities = joined_parts(network), softmax_outputs(network)
        self._ends: dict[str, Ends] = {}
        self._noise: dict[str, _Noise] = {}

    def add(self, name: str, expected: Array, got: Array) -> None:
        """Add an output of a batch of images; the first batch says of which parts it is."""
        if name not in self._ends:
            whole = name in self._probabilities
            ends = {} if whole else parts_of(expected, self._joined.get(name), MOST_PARTS)
            self._ends[name] = {axis: at for axis, at in ends.items() if axis}  # the first one is of images
        for part in divide(expected.shape, self._ends[name]):
            noise = self._noise.setdefault(f"{name}{part}", _Noise())
            noise.add(expected[part.slices], got[part.slices])

    def worst(self) -> tuple[str, float]:
        """Return name and SQNR of the part with the lowest SQNR; the name is empty if there is one part."""
        if not self._noise:
            return "", _MOST_DB
        part, noise = min(self._noise.items(), key=lambda item: item[1].db)
        return part if len(self._noise) > 1 else "", noise.db


def _share(part: int, whole: int) -> float:
    return round(part / whole, 5) if whole else 0.0


def _agreement(rows: Sequence[tuple[Array, Array]], most: int) -> float | None:
    """Return the share of rows in which the largest value of one is among the `most` largest of the other."""
    if not rows:
        return None
    agree = [
        expected.argmax(axis=1)[:, None] == np.argsort(-got, axis=1, kind="stable")[:, :most]
        for expected, got in rows
    ]
    return round(float(np.concatenate([row.any(axis=1) for row in agree]).mean()), 5)


@dataclass(frozen=True)
class Quantised:
    """A quantised network.

    Attributes
    ----------
    graph
        The ONNX graph with inferred shapes, for the importer and for onnxruntime's reference.
    counts
        Kind of layer, such as `convolution` -> how many are computed in integers.
    left
        Name of another layer -> why it is not quantised.
    judge
        Computes the accuracy loss; see `cost`.
    """

    graph: onnx.ModelProto
    counts: Mapping[str, int]
    left: Mapping[str, str]
    judge: Callable[[], QuantisingCost] = field(repr=False, compare=False)

    @cached_property
    def cost(self) -> QuantisingCost:
        """The accuracy loss, computed on first use by running both graphs; only building needs it."""
        return self.judge()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object for `--json`."""
        return {**self.cost.to_json(), "integers": dict(self.counts), "left": dict(self.left)}

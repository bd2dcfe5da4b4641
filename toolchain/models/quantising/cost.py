"""Measures the accuracy loss of quantising: how far integers are from the floats they represent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.models.quantising.calibration import Inputs, Tapped
from toolchain.models.quantising.layer import Layer

SATURATED = 0.01
"""Share of clipped values in a layer above which the user is warned."""

FINEST = "mse"
"""The quantizer with a scale for each tensor."""

_RANDOM = (
    "judged by {} random inputs, which say little of real ones: a trained network may lose far more; "
    "calibrate and judge it with --calibrate NAME=FILE.npy"
)
_MOST_DB = 200.0
"""SQNR in dB that is reported if nothing was lost."""


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
        SQNR of all outputs of the network together, in dB.
    top1, top5
        Share of rows of a `[rows, classes]` output whose former class is still the first, or among the first
        five; None without such an output.
    """

    images: int
    random: bool
    quantizer: str
    layers: tuple[LayerCost, ...]
    sqnr_db: float
    top1: float | None
    top5: float | None

    def warnings(self) -> list[str]:
        """Return a warning if the images were random, and one for each layer that clips too many values."""
        said = [_RANDOM.format(self.images)] if self.random else []
        if self.quantizer != FINEST:
            way_out = f"give each tensor a scale of its own: --quantizer {FINEST}"
        else:
            more = "" if self.random else "more "
            way_out = f"calibrate with {more}images that the network is made for: --calibrate NAME=FILE.npy"
        return said + [
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
    layers: Sequence[Layer],
    integers: Mapping[str, tuple[str, int]],
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
    integers
        Tensor of a layer -> name of its integers in `after`, and their exponent.
    """
    outputs = [output.name for output in before.graph.output]
    results = [layer.site.result for layer in layers]
    floats = Tapped(before, [*results, *outputs], origin)
    whole = Tapped(after, [*(integers[name][0] for name in results), *outputs], origin)
    noise: dict[str, _Noise] = {name: _Noise() for name in (*results, "")}
    clipped = {name: [0, 0] for name in results}
    rows: list[tuple[Array, Array]] = []
    for inputs in images:
        wanted, got = floats.values(inputs), whole.values(inputs)
        for layer in layers:
            name = layer.site.result
            steps, exponent = got[integers[name][0]], integers[name][1]
            noise[name].add(wanted[name], np.ldexp(steps.astype(np.float32), exponent))
            top = np.ldexp(np.float32(127.5), exponent)
            clipped[name][0] += int(np.count_nonzero(np.abs(wanted[name]) > top))
            clipped[name][1] += wanted[name].size
        for name in outputs:
            if np.issubdtype(wanted[name].dtype, np.floating):
                noise[""].add(wanted[name], got[name])
            if wanted[name].ndim == 2 and wanted[name].shape[1] > 1:
                rows.append((wanted[name], got[name]))
    return QuantisingCost(
        images=sum(_rows(inputs) for inputs in images),
        random=random,
        quantizer=quantizer,
        layers=tuple(
            LayerCost(layer.site.name, noise[layer.site.result].db, _share(*clipped[layer.site.result]))
            for layer in layers
        ),
        sqnr_db=noise[""].db,
        top1=_agreement(rows, 1),
        top5=_agreement(rows, 5),
    )


def _rows(inputs: Inputs) -> int:
    first = next(iter(inputs.values()))
    return len(first) if first.ndim else 1


class _Noise:
    """Accumulates the power of a signal and of its quantisation noise."""

    def __init__(self) -> None:
        self._signal = self._noise = 0.0

    def add(self, wanted: Array, got: Array) -> None:
        self._signal += float(np.square(wanted, dtype=np.float64).sum())
        self._noise += float(np.square(got - wanted, dtype=np.float64).sum())

    @property
    def db(self) -> float:
        if not self._noise:
            return _MOST_DB
        return round(10 * math.log10(max(self._signal, 1e-300) / self._noise), 2)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 5) if whole else 0.0


def _agreement(rows: Sequence[tuple[Array, Array]], most: int) -> float | None:
    """Return the share of rows in which the largest value of one is among the `most` largest of the other."""
    if not rows:
        return None
    agree = [
        wanted.argmax(axis=1)[:, None] == np.argsort(-got, axis=1, kind="stable")[:, :most]
        for wanted, got in rows
    ]
    return round(float(np.concatenate([each.any(axis=1) for each in agree]).mean()), 5)

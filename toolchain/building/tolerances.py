"""Decides how outputs are compared with the reference: in which parts, and how far they may be off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from toolchain.arrays import Array
from toolchain.bundles.manifest import OutputParts, OutputTolerance
from toolchain.devices.device import CPU
from toolchain.measuring.numerics import Tolerance, output_error
from toolchain.models.deviation import Ends, parts_of
from toolchain.models.judging.reference import RUNS, Reference, noisy_outputs
from toolchain.models.load import Model
from toolchain.models.options import MOST_PARTS
from toolchain.quantities import counted

_MOST_ENDS = 1024  # of all outputs: a release has at most 4096 values
_FEWEST = 8  # values of a part, of which it is said that they are all the same

NOISE = {"float32": 1e-5, "float16": 1e-3}
"""Relative difference of the floats of two programs before they are rounded, with a margin."""

ROOM = 2
"""Factor on the spread in steps of a few runs, since the largest of a few runs is not the largest of all."""

ROOM_OF_FLOATS = 3
"""The same for floating-point outputs behind roundings: with one sample of four, a right library was off by
2.03 times the spread of four runs."""

MOST = 0.25
"""Widest tolerance of an output, relative to its largest value or to the range of its steps: with 1, zeros
would pass."""

HALVES = 0.02
"""Share of values that may be off: two modes of onnxruntime differ in 1 % of the values of a softmax."""

AMPLIFIED = 16
"""A build warns of a tolerance of more steps than this, since an error of a layer may hide in it."""

WIDE = 0.05
"""The same limit for floating-point outputs, relative to the largest value."""


@dataclass(frozen=True)
class Expectation:
    """A sample in a shape of the network, its expected outputs, and how outputs are compared with them.

    Attributes
    ----------
    reference
        The sample and its expected outputs.
    tolerances
        Tolerances of outputs that are compared in steps, or need a wider one than usual.
    parts
        Parts of outputs that are compared in their own scales.
    blind
        Warnings about parts of outputs that have the same value everywhere.
    """

    reference: Reference
    tolerances: tuple[OutputTolerance, ...] = ()
    parts: tuple[OutputParts, ...] = ()
    blind: tuple[str, ...] = ()

    def warnings(self) -> list[str]:
        """Return a warning for each output, or part of one, in which an error may hide."""
        return [*amplification(self.tolerances), *self.blind]

    @property
    def arrays(self) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        """Sample and expected outputs, as `write_bundle` takes them."""
        return self.reference.sample, self.reference.outputs


def expectation(model: Model, reference: Reference, device: str, dtype: str, least: float) -> Expectation:
    """Return how a network's outputs are compared; run the reference several times if the network rounds.

    Parameters are those of `rounding_tolerances`.
    """
    most = min(MOST_PARTS, _MOST_ENDS // len(reference.outputs))
    ends = {
        name: divided
        for name, expected in reference.outputs.items()
        if name not in model.softmax_outputs and np.issubdtype(expected.dtype, np.floating)
        if (divided := parts_of(expected, model.joined.get(name), most))
    }
    tolerances = rounding_tolerances(model, reference, device, dtype, least, ends)
    steps = {tolerance.output: tolerance.step for tolerance in tolerances if tolerance.step}
    return Expectation(
        reference,
        tolerances,
        tuple(
            OutputParts(output=name, axis=axis, ends=at)
            for name, divided in ends.items()
            if name not in steps
            for axis, at in divided.items()
        ),
        tuple(
            warning
            for name, expected in reference.outputs.items()
            if name not in model.softmax_outputs
            for warning in _constant_parts(name, expected, model.joined.get(name, {}), steps.get(name))
        ),
    )


def _constant_parts(name: str, expected: Array, joined: Ends, step: float | None) -> Iterator[str]:
    """Yield a warning for each part of an output that has one value everywhere, while another has more."""
    for axis, ends in joined.items():
        pieces = np.split(expected, ends[:-1], axis)
        if all(piece.size and piece.min() == piece.max() for piece in pieces):
            continue
        for end, piece in zip(ends, pieces, strict=True):
            if piece.size >= _FEWEST and piece.min() == piece.max():
                begin = end - piece.shape[axis]
                coarse = f"; its quantisation step, {step:g}, may be too coarse for it" if step else ""
                yield (
                    f"output {name!r} is {piece.flat[0]:g} everywhere from {begin} to {end - 1} on axis "
                    f"{axis} for the sample, so that verify sees little there{coarse}; hand over a real one: "
                    "--sample"
                )


def rounding_tolerances(
    model: Model,
    reference: Reference,
    device: str,
    dtype: str,
    least: float,
    ends: Mapping[str, Ends] = MappingProxyType({}),
) -> tuple[OutputTolerance, ...]:
    """Return the tolerances of the outputs of a network that rounds to integers; nothing for other networks.

    A few values of a quantised output may be a step off. If the network rounds floats on the way, which
    another program may compute slightly differently, the reference is run with such noise, and twice the
    spread of its outputs is allowed.

    Parameters
    ----------
    device, dtype
        The device that the network is compiled for, and the type in which it computes.
    least
        The tolerance of floating-point outputs.
    ends
        Parts of outputs that are compared in their own scales.
    """
    rounding = model.rounding
    if rounding is None:
        return ()
    # Divisions on devices are inexact, so even the first rounding of the inputs is uncertain there.
    uncertain = rounding.uncertain if device == CPU else rounding.floats
    noise = NOISE["float16" if dtype == "float16" else "float32"]
    runs = list(noisy_outputs(model, reference.sample, uncertain, noise)) if uncertain else []
    known = "all sums are exact, a last rounding may meet a half"
    if uncertain:
        places = counted(len(uncertain), "rounding")
        known = f"{RUNS} runs of the reference with noise of {noise:g} before {places} differ by"
    tolerances = []
    for name, expected in reference.outputs.items():
        step = rounding.steps.get(name)
        allowed = Tolerance(1.0 if step else least, step, ends=ends.get(name, {}))
        spread = [
            output_error(name, outputs[name], expected, allowed, name in model.softmax_outputs)
            for outputs in runs
        ]
        if step:
            far = max((run.error_steps or 0.0 for run in spread), default=0.0)
            off = max((run.values_off or 0 for run in spread), default=0)
            number = float(max(1, min(math.ceil(ROOM * far - 0.01), int(_range(expected, step) * MOST))))
            values = max(1, ROOM * off, int(HALVES * _busy(expected, step)))
            reason = (
                f"{known} {counted(far, 'step', form='.3g')} in {counted(off, 'value')}"
                if uncertain
                else known
            )
            tolerances.append(
                OutputTolerance(output=name, step=step, number=number, values=values, reason=reason)
            )
            continue
        far = max((run.max_rel_error or 0.0 for run in spread), default=0.0)
        if ROOM_OF_FLOATS * far > least:
            number = min(MOST, ROOM_OF_FLOATS * far)
            tolerances.append(
                OutputTolerance(output=name, step=None, number=number, reason=f"{known} {far:.3g}")
            )
    return tuple(tolerances)


def _range(expected: Array, step: float) -> int:
    """Return how many steps lie between the least and the largest value."""
    return int(np.rint((float(expected.max(initial=0)) - float(expected.min(initial=0))) / step))


def _busy(expected: np.ndarray, step: float) -> int:
    """Return how many values differ from the most common one; nearly all values of a softmax are 0."""
    steps = np.rint(expected.astype(np.float64) / step)
    _values, counts = np.unique(steps, return_counts=True)
    return int(steps.size - counts.max(initial=0))


def amplification(tolerances: tuple[OutputTolerance, ...]) -> list[str]:
    """Return a warning for each output whose tolerance is wide enough to hide an error."""
    return [
        f"output {tolerance.output!r} may be off by {tolerance.text}, because the network amplifies rounding "
        f"({tolerance.reason}): verify does not see smaller errors"
        + (", and a right library may fail by chance: it is no judge here" if _bounded(tolerance) else "")
        for tolerance in tolerances
        if (tolerance.number > AMPLIFIED if tolerance.step else tolerance.number > WIDE)
    ]


def _bounded(tolerance: OutputTolerance) -> bool:
    return tolerance.step is None and tolerance.number >= MOST

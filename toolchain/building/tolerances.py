"""Computes how far the outputs of a quantised network may be from the reference, and why."""

from __future__ import annotations

import math

import numpy as np

from toolchain.bundles.manifest import OutputTolerance
from toolchain.devices.device import CPU
from toolchain.measuring.numerics import Tolerance, output_error
from toolchain.models.judging.reference import Reference
from toolchain.models.judging.spread import RUNS, noisy_outputs
from toolchain.models.load import Model

NOISE = {"float32": 1e-5, "float16": 1e-3}
"""Relative difference of the floats of two programs before they are rounded, with a margin."""

ROOM = 2
"""Factor on the spread of a few runs, since the largest of a few runs is not the largest of all."""

HALVES = 0.02
"""Share of values that may be off: two modes of onnxruntime differ in 1 % of the values of a softmax."""

AMPLIFIED = 16
"""A build warns of a tolerance of more steps than this, since an error of a layer may hide in it."""

WIDE = 0.05
"""The same limit for floating-point outputs, relative to the largest value."""


def rounding_tolerances(
    model: Model, reference: Reference, device: str, dtype: str, least: float
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
        places = f"{len(uncertain)} rounding" + ("s" if len(uncertain) > 1 else "")
        known = f"{RUNS} runs of the reference with noise of {noise:g} before {places} differ by"
    found = []
    for name, expected in reference.outputs.items():
        step = rounding.steps.get(name)
        allowed = Tolerance(1.0 if step else least, step)
        spread = [
            output_error(name, outputs[name], expected, allowed, name in model.softmax_outputs)
            for outputs in runs
        ]
        if step:
            far = max((each.error_steps or 0.0 for each in spread), default=0.0)
            off = max((each.values_off or 0 for each in spread), default=0)
            number = float(max(1, math.ceil(ROOM * far - 0.01)))
            values = max(1, ROOM * off, int(HALVES * _busy(expected, step)))
            reason = f"{known} {far:.3g} steps in {off} values" if uncertain else known
            found.append(OutputTolerance(output=name, step=step, number=number, values=values, reason=reason))
            continue
        far = max((each.max_rel_error or 0.0 for each in spread), default=0.0)
        if ROOM * far > least:
            found.append(
                OutputTolerance(
                    output=name, step=None, number=min(1.0, ROOM * far), reason=f"{known} {far:.3g}"
                )
            )
    return tuple(found)


def _busy(expected: np.ndarray, step: float) -> int:
    """Return how many values differ from the most common one; nearly all values of a softmax are 0."""
    steps = np.rint(expected.astype(np.float64) / step)
    _values, counts = np.unique(steps, return_counts=True)
    return int(steps.size - counts.max(initial=0))


def amplification(tolerances: tuple[OutputTolerance, ...]) -> list[str]:
    """Return a warning for each output whose tolerance is wide enough to hide an error."""
    return [
        f"output {each.output!r} may be off by {each.said}, because the network amplifies rounding "
        f"({each.reason}): verify does not see smaller errors"
        for each in tolerances
        if (each.number > AMPLIFIED if each.step else each.number > WIDE)
    ]

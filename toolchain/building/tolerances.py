"""How far the outputs of a quantised network may be from the reference, and why that far."""

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
"""How far floats of two programs are from one another before they are rounded: relative, with a margin."""

ROOM = 2
"""How many times the spread of a few runs is allowed: the largest of few is not the largest of all."""

HALVES = 0.02
"""Share of the values that may be off: two of onnxruntime's own modes differ in 1 % of a softmax's."""

AMPLIFIED = 16
"""Steps from which on a build warns: an error of a layer may hide behind that many."""

WIDE = 0.05
"""The same for outputs in floats, relative to the largest value."""


def rounding_tolerances(
    model: Model, reference: Reference, device: str, dtype: str, least: float
) -> tuple[OutputTolerance, ...]:
    """Return the tolerances of the outputs of a network that rounds to integers; of others, none.

    Of an output of integers, or of numbers that they stand for, a few values may be a step off. Where floats
    are rounded on the way that another program computes a little differently, the judge itself is run with
    such noise, and what it spreads to is allowed twice.

    Parameters
    ----------
    device, dtype
        What the network is compiled for, and in which type.
    least
        The tolerance of outputs in floats.
    """
    rounding = model.rounding
    if rounding is None:
        return ()
    # Divisions on devices are not exact, so that even the first rounding of the inputs is uncertain there.
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
    """Return how many values are not the commonest one: those of a softmax are nearly all 0."""
    steps = np.rint(expected.astype(np.float64) / step)
    _values, counts = np.unique(steps, return_counts=True)
    return int(steps.size - counts.max(initial=0))


def amplification(tolerances: tuple[OutputTolerance, ...]) -> list[str]:
    """Return warnings of outputs whose tolerance is so wide that an error may hide in it."""
    return [
        f"output {each.output!r} may be off by {each.said}, because the network amplifies rounding "
        f"({each.reason}): verify does not see smaller errors"
        for each in tolerances
        if (each.number > AMPLIFIED if each.step else each.number > WIDE)
    ]

"""Compares the outputs of a board with the reference.

The error of an output y with reference r is max|y - r| / max|r|: it is relative to the largest value, so that
rounding errors of small values among large ones are accepted.

Where an output has parts (see `models.parts`), each is relative to its own largest value, and the worst
part's error is the output's: scores to 1 are not hidden by boxes to 640. The scale of a part is at least
`LEAST_SCALE` of the whole output's.

Probabilities need more care: a softmax maps wrong logits to numbers so small that the largest hides them.
Outputs of a softmax are therefore compared as centred log-probabilities, log(max(p, 1e-30)) minus its mean
over the last axis, which equal the centred logits, relative to s, the largest of the reference's. The last
axis is the class axis of every classifier; if it is another axis, the log-probabilities are relative to
another mean, and the comparison is no weaker. Where the reference is 0, as of a masked class, its logarithm
is no logit: it counts neither for means nor for s, and differences there are relative to -log(1e-30). s is at
least 1e-3, for float32 has no smaller differences of logits than 1e-6.

Centred logarithms show neither a common factor, such as of a softmax that forgot to divide, nor what is below
0. The probabilities themselves are therefore compared, too, relative to (1 + 2s) max|r|: logits that are off
by d change a probability p by at most 2dp, so that an error of the logits that is allowed stays allowed. The
larger of the two errors is the output's.

Integers and booleans must be equal, except quantised values: outputs of a quantised network, as integers or
as dequantised numbers, are compared in quantisation steps. NaN or infinity anywhere is a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from toolchain.arrays import Array

TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "tfloat32": 1e-2, "int8": 1e-3}
"""Largest max|y-r| / max|r| of a floating-point output, by the type to which values are rounded on the way.

Winograd and other orders of summation cause errors of at most 1e-4 in float32; a missing row, lane or bias
causes much larger ones. With float16 the sums themselves may be rounded to it. Factors in tfloat32 have as
many bits as in float16, but sums and values between layers are float32.
"""

LEAST_SCALE = 1e-4
"""Least scale of a part, relative to the whole output's. With the tolerance of float32 this allows an error
of 1e-7 of the largest value everywhere, which is about its rounding (2^-24)."""

_SLACK = 0.01  # in steps: how far a float may be from the exact multiple of a step

_LEAST_PROBABILITY = 1e-30  # representable in float32; smaller probabilities carry no information
_LEAST_SPREAD = 1e-3  # of logits


@dataclass(frozen=True)
class Tolerance:
    """The largest allowed error of an output.

    Attributes
    ----------
    number
        The limit, in steps or relative to the largest value.
    step
        Size of a quantisation step in the output's numbers; None: `number` is relative.
    values
        How many values may be off by a step or more; None: all.
    reason
        Why the limit has this value; empty: it is the usual one for the type.
    ends
        Axis -> where the parts along it end; each is compared in its own scale. Empty: the output is one
        part. It matters for values alone: steps and probabilities are compared as wholes.
    """

    number: float
    step: float | None = None
    values: int | None = None
    reason: str = ""
    ends: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class OutputDeviation:
    """The comparison of one output with its reference.

    Attributes
    ----------
    max_abs_error, max_rel_error
        Errors of the values as they were compared, see `compared_as`; None if a value is not finite, or the
        shape or dtype is wrong. Of log-probabilities, or of the probabilities where these are further off.
    worst_index, value, expected
        Index of the largest difference, with the computed and the expected value there.
    tolerance
        The limit relative to the largest value, also for outputs that are compared in steps.
    problem
        What is wrong if the output could not be compared.
    step, steps
        Size of a quantisation step, and how many steps are allowed; None if not compared in steps.
    error_steps
        The largest error in steps.
    values, values_off
        How many values may be off by a step or more, and how many are.
    reason
        Why this tolerance applies.
    part
        Begin and end on each axis of the part with the largest error; None if the output was compared as a
        whole.
    part_scale
        What errors in that part are relative to.
    """

    name: str
    shape: list[int]
    max_abs_error: float | None
    max_rel_error: float | None
    worst_index: list[int] | None
    value: float | None
    expected: float | None
    tolerance: float
    compared_as: str
    passed: bool
    problem: str | None = None
    step: float | None = None
    steps: float | None = None
    error_steps: float | None = None
    values: int | None = None
    values_off: int | None = None
    reason: str = ""
    part: list[list[int]] | None = None
    part_scale: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The comparison of all outputs of one run with their references."""

    outputs: tuple[OutputDeviation, ...]

    @property
    def passed(self) -> bool:
        """Whether there is an output and all outputs passed."""
        return bool(self.outputs) and all(output.passed for output in self.outputs)

    @property
    def tolerance(self) -> float:
        """The largest tolerance of an output."""
        return max((output.tolerance for output in self.outputs), default=0.0)

    @property
    def worst(self) -> OutputDeviation:
        """The failed output with the largest error; if none failed, the output with the largest error."""
        return max(
            self.outputs,
            key=lambda o: (not o.passed, np.inf if o.max_rel_error is None else o.max_rel_error),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as `toolchain verify --json` prints it."""
        return {
            "passed": self.passed,
            "tolerance": self.tolerance,
            "outputs": [asdict(output) for output in self.outputs],
        }


def compare(
    outputs: Mapping[str, np.ndarray],
    references: Mapping[str, np.ndarray],
    tolerances: Mapping[str, Tolerance],
    softmax_outputs: Set[str] = frozenset(),
) -> Comparison:
    """Compare every reference with the output of its name.

    Parameters
    ----------
    outputs, references
        Arrays by output name; an output that is missing fails.
    tolerances
        The largest allowed error by output name; for integers it matters only if it is in steps.
    softmax_outputs
        Names of the outputs that are probabilities.
    """
    return Comparison(
        tuple(
            output_error(name, outputs.get(name), reference, tolerances[name], name in softmax_outputs)
            for name, reference in references.items()
        )
    )


def output_error(
    name: str, output: np.ndarray | None, reference: np.ndarray, allowed: Tolerance, softmax: bool = False
) -> OutputDeviation:
    """Compare `output` with `reference`. An output of None is missing, and fails."""
    inexact = np.issubdtype(reference.dtype, np.inexact)
    in_steps = allowed.step is not None
    softmax = softmax and not in_steps
    largest = (
        float(np.abs(reference.astype(np.float64)).max(initial=0)) if np.isfinite(reference).all() else 0.0
    )
    if allowed.step is not None:
        compared_as, tolerance = "steps", (allowed.number + _SLACK) * allowed.step / (largest or 1.0)
    elif inexact:
        compared_as, tolerance = ("log-probabilities" if softmax else "values"), allowed.number
    else:
        compared_as, tolerance = "equal", 0.0

    def failed(problem: str, index: tuple[int, ...] | None = None) -> OutputDeviation:
        return OutputDeviation(
            name=name,
            shape=list(reference.shape),
            max_abs_error=None,
            max_rel_error=None,
            worst_index=None if index is None else list(index),
            value=None,
            expected=None if index is None or not np.isfinite(reference[index]) else float(reference[index]),
            tolerance=tolerance,
            compared_as=compared_as,
            passed=False,
            problem=problem,
            step=allowed.step,
            steps=allowed.number if in_steps else None,
            values=allowed.values,
            reason=allowed.reason,
        )

    if output is None:
        return failed("the board returned no such output")
    if output.shape != reference.shape:
        return failed(f"shape {list(output.shape)} where {list(reference.shape)} is expected")
    if output.dtype != reference.dtype:
        return failed(f"dtype {output.dtype} where {reference.dtype} is expected")
    if inexact:
        for array, whose in ((output, "the board's"), (reference, "the reference's")):
            if not np.isfinite(array).all():
                index = _index(~np.isfinite(array))
                return failed(f"{whose} value at {list(index)} is {array[index]}", index)
    difference, scale = _difference(output, reference, softmax and inexact)
    ends = allowed.ends if compared_as == "values" else {}
    if ends and difference.size:
        scales = part_scales(reference, ends)
        with np.errstate(divide="ignore"):  # the reference may be zero everywhere
            errors = np.divide(difference, scales, out=np.zeros_like(difference), where=difference > 0)
        worst = _index(errors)
        scale = float(np.broadcast_to(scales, difference.shape)[worst])
    else:
        worst = _index(difference)
    absolute = float(difference[worst]) if difference.size else 0.0
    off = None
    if allowed.step is not None:
        scale = largest or 1.0
        off = int(np.count_nonzero(difference > allowed.step / 2))
    too_many = off is not None and allowed.values is not None and off > allowed.values
    relative = _relative(absolute, scale)
    return OutputDeviation(
        name=name,
        shape=list(reference.shape),
        max_abs_error=absolute,
        max_rel_error=relative if np.isfinite(relative) else None,
        worst_index=list(worst),
        value=float(output[worst]) if difference.size else None,
        expected=float(reference[worst]) if difference.size else None,
        tolerance=tolerance,
        compared_as=compared_as,
        passed=bool(relative <= tolerance and not too_many),
        problem=None if np.isfinite(relative) else "the reference is zero everywhere",
        step=allowed.step,
        steps=allowed.number if in_steps else None,
        error_steps=None if allowed.step is None else absolute / allowed.step,
        values=allowed.values,
        values_off=off,
        reason=allowed.reason,
        part=_part(worst, reference.shape, ends) if ends and difference.size else None,
        part_scale=scale if ends and difference.size else None,
    )


def part_scales(reference: Array, ends: Mapping[int, tuple[int, ...]]) -> Array:
    """Return what errors are relative to at each place of an output, as an array that broadcasts to it.

    Parameters
    ----------
    reference
        The expected values, finite and at least one.
    ends
        Axis -> where the parts along it end, the last at the axis's extent.
    """
    scales = np.abs(reference.astype(np.float64))
    whole = scales.max()
    for axis in range(scales.ndim):
        ends_here = ends.get(axis, (scales.shape[axis],))
        begins = [0, *ends_here[:-1]]
        scales = np.maximum.reduceat(scales, begins, axis=axis)
        if axis in ends:
            scales = np.repeat(scales, np.diff([0, *ends_here]), axis=axis)
    least: Array = np.maximum(scales, LEAST_SCALE * whole)
    return least


def _part(
    index: tuple[int, ...], shape: tuple[int, ...], ends: Mapping[int, tuple[int, ...]]
) -> list[list[int]]:
    """Return begin and end on each axis of the part that has the element at an index."""
    box = []
    for axis, (at, extent) in enumerate(zip(index, shape, strict=True)):
        bounds = [0, *ends.get(axis, (extent,))]
        box.append(next([begin, end] for begin, end in pairwise(bounds) if at < end))
    return box


def _difference(output: np.ndarray, reference: np.ndarray, softmax: bool) -> tuple[np.ndarray, float]:
    """Return |y - r| in float64, and what it is relative to; for a softmax see the module."""
    if not np.issubdtype(reference.dtype, np.inexact):
        unequal = output != reference
        # float64 may round a difference of large integers to zero.
        difference = np.maximum(np.abs(output.astype(np.float64) - reference.astype(np.float64)), unequal)
        return difference, max(1.0, float(np.abs(reference.astype(np.float64)).max(initial=0)))
    y, r = output.astype(np.float64), reference.astype(np.float64)
    values = np.abs(y - r), float(np.abs(r).max(initial=0))
    if not softmax:
        return values
    logarithms = _logarithms(y, r)
    probabilities = values[0], values[1] * (1 + 2 * logarithms[1])
    return max(logarithms, probabilities, key=lambda each: _relative(float(each[0].max(initial=0)), each[1]))


def _relative(error: float, scale: float) -> float:
    if error == 0:
        return 0.0
    return error / scale if scale > 0 else np.inf


def _logarithms(output: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the differences of centred logarithms, and the spread of the reference's."""
    counted = reference > 0
    y, r = (_centred(np.log(np.maximum(each, _LEAST_PROBABILITY)), counted) for each in (output, reference))
    spread = max(float(np.abs(r[counted]).max(initial=0)), _LEAST_SPREAD)
    difference = np.abs(y - r)
    own_scale = max(spread, -np.log(_LEAST_PROBABILITY))
    return np.where(counted, difference, difference * (spread / own_scale)), spread


def _centred(logarithms: np.ndarray, counted: np.ndarray) -> np.ndarray:
    if not logarithms.ndim:
        return logarithms
    total = np.where(counted, logarithms, 0).sum(axis=-1, keepdims=True)
    centred: np.ndarray = logarithms - total / np.maximum(counted.sum(axis=-1, keepdims=True), 1)
    return centred


def _index(score: np.ndarray) -> tuple[int, ...]:
    """Return the index of the first largest element; an empty tuple for an empty array."""
    if score.size == 0:
        return ()
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(score)), score.shape))

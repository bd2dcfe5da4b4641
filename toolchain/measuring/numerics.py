"""Compares the outputs of a board with the reference.

`models.deviation` defines the error of an output. Here it gets its tolerance.

Integers and booleans must be equal, except quantised values: outputs of a quantised network, as integers or
as dequantised numbers, are compared in quantisation steps. NaN or infinity anywhere is a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from toolchain.models.deviation import ArrayPart, deviation, index_of_largest
from toolchain.quantities import counted

TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "tfloat32": 1e-2, "int8": 1e-3}
"""Largest max|y-r| / max|r| of a floating-point output, by the type to which values are rounded on the way.

Winograd and other orders of summation cause errors of at most 1e-4 in float32; a missing row, lane or bias
causes much larger ones. With float16 the sums themselves may be rounded to it. Factors in tfloat32 have as
many bits as in float16, but sums and values between layers are float32.
"""

_SLACK = 0.01  # in steps: how far a float may be from the exact multiple of a step


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

    @property
    def failure(self) -> str:
        """The reason why an output did not pass, in words, without its worst values."""
        if self.problem or self.max_rel_error is None:
            return self.problem or "not comparable"
        if self.error_steps is not None:
            off = counted(self.values_off or 0, "value is", "values are")
            steps = counted(self.error_steps, "step", form=".3g")
            allowed = counted(self.values or 0, "value"), counted(self.steps or 0, "step", form="g")
            return (
                f"{off} off by up to {steps} of {self.step:g}, "
                f"where {allowed[0]} may be off by up to {allowed[1]} ({self.reason})"
            )
        if self.compared_as == "equal":
            return f"differs by up to {self.max_abs_error:g}, where values must be equal"
        how = f"{self.compared_as}: {self.reason}" if self.reason else self.compared_as
        if self.part is not None:
            name = ArrayPart(self.part, self.shape)
            how += f", relative to {self.part_scale:.3g}, the largest of part {name}"
        return f"error {self.max_rel_error:.3g} above the tolerance {self.tolerance:g} ({how})"


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
                index = index_of_largest(~np.isfinite(array))
                return failed(f"{whose} value at {list(index)} is {array[index]}", index)
    worst = deviation(
        output, reference, allowed.ends if compared_as == "values" else {}, softmax=softmax and inexact
    )
    scale, off = worst.scale, None
    if allowed.step is not None:
        scale = largest or 1.0
        difference = np.abs(output.astype(np.float64) - reference.astype(np.float64))
        off = int(np.count_nonzero(difference > allowed.step / 2))
    too_many = off is not None and allowed.values is not None and off > allowed.values
    relative = replace(worst, scale=scale).relative
    return OutputDeviation(
        name=name,
        shape=list(reference.shape),
        max_abs_error=worst.absolute,
        max_rel_error=relative if np.isfinite(relative) else None,
        worst_index=list(worst.index),
        value=float(output[worst.index]) if reference.size else None,
        expected=float(reference[worst.index]) if reference.size else None,
        tolerance=tolerance,
        compared_as=compared_as,
        passed=bool(relative <= tolerance and not too_many),
        problem=None if np.isfinite(relative) else "the reference is zero everywhere",
        step=allowed.step,
        steps=allowed.number if in_steps else None,
        error_steps=None if allowed.step is None else worst.absolute / allowed.step,
        values=allowed.values,
        values_off=off,
        reason=allowed.reason,
        part=None if worst.part is None else [list(bounds) for bounds in worst.part.bounds],
        part_scale=None if worst.part is None else scale,
    )

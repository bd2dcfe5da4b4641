"""The lines of a plan about a candidate, and the files that they name (native/src/offline/plan.h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from toolchain.arrays import Array
from toolchain.measuring.numerics import TOLERANCE
from toolchain.tasks.candidate import Candidate, Case, Entry, Parameter
from toolchain.tuning.plans.members import Member
from toolchain.tuning.plans.operands import operand, stored

_ROUNDED = ("float32", "float16", "int8", "uint8")  # types of rounded values; the others may be indices

HALVES = 1e-2
"""Share of rounded integers that may differ by one: some sums of random numbers end close to a half."""
_EXACT_IN_FLOAT32 = ("float16", "float32", "int8", "uint8", "int16", "uint16", "bool")


@dataclass(frozen=True)
class CaseBlock:
    """A case of a candidate: its lines of the plan, and the files that they name."""

    lines: tuple[str, ...]
    members: tuple[Member, ...]


def case_block(candidate: Candidate, case: Case) -> CaseBlock:
    """Return a case in the layouts of a candidate.

    Values that the layout leaves open, such as padding, are NaN in the expected outputs. Outputs of which
    nothing is known are kept by edge-rt.
    """
    arguments, expected = case.arguments(), case.expected()
    lines, members = ["case"], []
    inputs = candidate.parameters[: -candidate.outputs]
    for place, parameter in enumerate(inputs):
        one = operand(place, parameter, case, arguments)
        lines.append(one.line)
        members += [one.member] if one.member else []
    outputs = candidate.parameters[len(inputs) :]
    if expected is None:
        lines += [_output(parameter.filled(None), "-", 0, 0) for parameter in outputs]
        return CaseBlock(tuple(lines), tuple(members))
    tolerance = tolerance_of(expected)
    for parameter, wanted in zip(outputs, expected, strict=True):
        packed = parameter.filled(None)
        members.append(stored(_in_layout(parameter, packed, wanted)))
        halves = HALVES if rounds(wanted) else 0
        lines.append(_output(packed, members[-1].digest, tolerance, halves))
    return CaseBlock(tuple(lines), tuple(members))


def _output(packed: Array, expected: str, tolerance: float, halves: float) -> str:
    shape = "x".join(map(str, packed.shape)) or "-"
    return f"output {packed.dtype} {shape} {expected} {tolerance:g} {halves:g}"


def block(
    word: str, name: str, limit_s: float, library: str, function: str, memory: str, cases: Sequence[CaseBlock]
) -> tuple[str, ...]:
    """Return a candidate's lines of the plan; the first has `{digest}` in the place of its digest."""
    first = f"{word} {{digest}} {name} {limit_s:.3f} {library} {function} {memory}"
    return (first, *(line for each in cases for line in each.lines))


def content_digest(lines: Sequence[str], workload: str, entry: Entry) -> str:
    """Return the digest by which a result is matched to its candidate: of its code, operands and point."""
    point = (workload, entry.kind, entry.payload, entry.digest)
    parts = [part.encode() for part in (*point, *lines)]
    return sha256(b"".join(b"%d:%s" % (len(part), part) for part in parts)).hexdigest()


def _in_layout(parameter: Parameter, packed: Array, wanted: Array) -> Array:
    """Return the expected values where a candidate writes them: `Parameter.logical` only selects elements."""
    places = parameter.logical(np.arange(packed.size).reshape(packed.shape))
    floats = np.float32 if wanted.dtype.name in _EXACT_IN_FLOAT32 else np.float64
    values = np.full(packed.size, np.nan, floats)
    values[places.ravel()] = wanted.astype(floats).ravel()
    return values.reshape(packed.shape)


def tolerance_of(expected: Sequence[Array]) -> float:
    """Return the largest allowed difference as a share of an output's largest value."""
    half = any(each.dtype == np.float16 for each in expected)
    return TOLERANCE["float16" if half else "float32"]


def rounds(wanted: Array) -> bool:
    """Whether all values are integers and span more than one, as outputs of a function that rounds do."""
    if wanted.dtype.name not in _ROUNDED:
        return False
    values = wanted.astype(np.float64)
    values = values[np.isfinite(values)]
    return bool(values.size and np.ptp(values) > 1 and np.array_equal(values, np.rint(values)))

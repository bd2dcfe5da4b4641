"""Operands of candidates in a plan: the station draws and packs most, others are stored."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolchain.arrays import Array
from toolchain.tasks.candidate import Candidate
from toolchain.tasks.parameter import Parameter
from toolchain.tasks.reference import Case, TaskReference
from toolchain.tuning.boards.draws import LEAST_EXPONENT, MOST_EXPONENT, TYPES, Draw
from toolchain.tuning.offline.members import Member
from toolchain.tuning.offline.steps import PackingStep, recorded, text

_WEIGHTS = 1 << 32  # seeds of weights begin here, those of inputs are smaller
_LOOKED_AT = 1 << 16  # numbers of a weight


@dataclass(frozen=True)
class PlannedOperand:
    """An operand's line of the plan, and the file that it names, if any."""

    line: str
    member: Member | None


@dataclass(frozen=True)
class CaseInputs:
    """The inputs of a case, by their place among the parameters.

    Attributes
    ----------
    draws
        Inputs and weights that are drawn.
    weights
        Other constant weights, as the network has them.
    """

    case: Case
    draws: Mapping[int, Draw]
    weights: Mapping[int, Array]


@dataclass(frozen=True)
class Redrawn:
    """A reference that computes with drawn weights; see `tasks.reference.TaskReference`."""

    reference: TaskReference
    parameters: tuple[Parameter, ...]

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Compute the outputs for draws of all parameters, the weights among them."""
        return self.reference.outputs(draws)


def weight_draws(default: Candidate, reference: TaskReference) -> dict[int, Draw]:
    """Return what is drawn in the place of a network's weights.

    Only what a contraction multiplies by is drawn: other constants may be divisors, or decide an address. The
    time that code takes does not depend on the weights, and drawn ones need no room. Their deviation is that
    of the network's, within a factor of 1.4, so that outputs are of the usual size.
    """
    found = {}
    for place, own, plain in _constants(default, reference):
        some = plain.ravel()[:: max(1, plain.size // _LOOKED_AT)].astype(np.float64)
        deviation = float(np.std(some)) if some.size else 0.0
        if own.dtype in TYPES and own.dtype == str(plain.dtype) and 0 < deviation < math.inf:
            exponent = min(max(round(math.log2(deviation)), LEAST_EXPONENT), MOST_EXPONENT)
            found[place] = Draw(own.dtype, plain.shape, _WEIGHTS + place, exponent)
    return found


def weights_beside(
    default: Candidate, reference: TaskReference, draws: Mapping[int, Draw]
) -> dict[int, Array]:
    """Return the constant weights that are not drawn, as the network has them."""
    return {place: plain for place, _own, plain in _constants(default, reference) if place not in draws}


def redrawn(reference: TaskReference, draws: Mapping[int, Draw]) -> TaskReference:
    """Return a reference with drawn weights."""
    parameters = [
        replace(parameter, value=draws[place].values()) if place in draws else parameter
        for place, parameter in enumerate(reference.parameters)
    ]
    return Redrawn(reference, tuple(parameters))


def operand(
    place: int, parameter: Parameter, inputs: CaseInputs, arguments: Mapping[int, Array]
) -> PlannedOperand:
    """Return an operand in the layout of a candidate."""
    pack = parameter.pack or (parameter.layout.pack if parameter.layout else None)
    if (draw := inputs.draws.get(place)) is not None and draw.shared:
        value = draw.values()
        if pack is None and parameter.value is not None and parameter.value.shape != value.shape:
            raise AssertionError("a weight is packed, but it is not known how")
        steps = recorded(pack, value) if pack else ()
        if pack and steps is None:
            return _stored(pack(value))
        shape = "x".join(map(str, draw.shape)) or "-"
        drawn = f"drawn {draw.dtype} {shape} {draw.seed} {draw.exponent} {int(draw.edges)}"
        return PlannedOperand(f"{drawn} {text(steps or ())}", None)
    plain = inputs.weights.get(place, arguments.get(place))
    if pack is not None and plain is not None and (steps := recorded(pack, plain)) is not None:
        return _stored(plain, steps)
    return _stored(parameter.filled(arguments.get(place)))


def stored(array: Array) -> Member:
    """Return a file with an array."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
    return Member.of(file.getvalue())


def _stored(array: Array, steps: Sequence[PackingStep] = ()) -> PlannedOperand:
    member = stored(array)
    return PlannedOperand(f"stored {member.digest} {text(steps)}", member)


def _constants(default: Candidate, reference: TaskReference) -> list[tuple[int, Parameter, Array]]:
    """Return the weights of a task's contraction: their place, and how candidates and network have them."""
    pairs = zip(default.parameters, reference.parameters, strict=False)  # the former have outputs, too
    return [
        (place, own, plain.value)
        for place, (own, plain) in enumerate(pairs)
        if own.pack is not None and plain.value is not None
    ]

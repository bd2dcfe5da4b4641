"""Operands of candidates in a plan: the station draws and packs most, others are stored."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from toolchain.arrays import Array, Matrix, transformed
from toolchain.tasks.candidate import Candidate, Case, Parameter, TaskReference
from toolchain.tasks.draws import LEAST_EXPONENT, MOST_EXPONENT, TYPES, Draw
from toolchain.tuning.plans.members import Member

# How an operand is packed, as steps that a board can follow: padding, reshaping, transposing, transforming.
#
# The steps are recorded from the functions that pack in numpy. What does anything else to the numbers, as
# rounding to integers does, has no steps.

_MOST_AXES = 16
_MOST_TEXT = 2000  # letters; both as in native/src/offline
_MOST_BYTES = 1 << 30
_MOST_INTEGER = 1 << 53  # up to which a double has every integer, so that both sides divide the same ones


@dataclass(frozen=True)
class PackingStep:
    """A step: `p` pads with numbers before and behind each axis, `r` reshapes, `t` transposes.

    `m` transforms the matrices in the last two axes of an array of float32 by `arrays.transformed`. Its
    numbers are how many rows the left and the right matrix have, then numerator and denominator of each
    entry of both, row by row.
    """

    kind: str
    numbers: tuple[int, ...]

    def apply(self, value: Array) -> Array:
        """Return what the step makes of an array."""
        if self.kind == "p":
            return np.pad(value, list(zip(self.numbers[::2], self.numbers[1::2], strict=True)))
        if self.kind == "m":
            return transformed(value, *self._matrices(value.shape[-2], value.shape[-1]))
        return value.reshape(self.numbers) if self.kind == "r" else value.transpose(self.numbers)

    def _matrices(self, high: int, wide: int) -> tuple[Matrix, Matrix]:
        left, right, *pairs = self.numbers
        entries = iter([Fraction(a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)])
        return [[next(entries) for _ in range(high)] for _ in range(left)], [
            [next(entries) for _ in range(wide)] for _ in range(right)
        ]


def text(steps: Sequence[PackingStep]) -> str:
    """Return steps as a plan has them."""
    return ",".join(f"{step.kind}{'x'.join(map(str, step.numbers))}" for step in steps) or "-"


def followed(value: Array, steps: Sequence[PackingStep]) -> Array:
    """Return an array packed by steps."""
    for step in steps:
        value = step.apply(value)
    return np.ascontiguousarray(value)


def recorded(pack: Callable[[Array], Array], value: Array) -> tuple[PackingStep, ...] | None:
    """Return the steps by which a function packs an array; None if it does anything else to it.

    What was recorded is followed, and compared bit for bit with what the function returns.
    """
    try:
        traced: Any = pack(_Traced(value.shape, value.dtype))  # type: ignore[arg-type]
    except (_NoStepError, AttributeError, TypeError):
        return None
    if not isinstance(traced, _Traced) or len(text(traced.steps)) > _MOST_TEXT:
        return None
    packed = pack(value)
    same = followed(value, traced.steps)
    if same.dtype != packed.dtype or same.shape != packed.shape or same.tobytes() != packed.tobytes():
        return None
    return traced.steps


class _NoStepError(Exception):
    """A function does to an array what no step can say."""


class _Traced:
    """Stands for an array, and notes what is done to it; anything that is no step raises."""

    def __init__(self, shape: Sequence[int], dtype: Any, steps: tuple[PackingStep, ...] = ()) -> None:
        self.shape, self.dtype, self.steps = tuple(map(int, shape)), dtype, steps
        bytes_ = math.prod(self.shape) * dtype.itemsize
        if not 0 < bytes_ <= _MOST_BYTES or not 0 < len(self.shape) <= _MOST_AXES:
            raise _NoStepError

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * int(self.dtype.itemsize)

    @property
    def T(self) -> _Traced:  # noqa: N802
        return self.transpose()

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[_Traced]:
        if self.shape[0] != 1:  # the parts of an array would be put together again
            raise _NoStepError
        return iter([self.reshape(self.shape[1:])])

    def reshape(self, *extents: Any) -> _Traced:
        new = list(extents[0] if len(extents) == 1 and not isinstance(extents[0], int) else extents)
        if -1 in new:
            new[new.index(-1)] = self.size // -math.prod(new)
        if math.prod(new) != self.size:
            raise _NoStepError
        steps = self.steps[:-1] if self.steps and self.steps[-1].kind == "r" else self.steps
        before = self.shape if steps is self.steps else None
        made = tuple(map(int, new))
        return _Traced(made, self.dtype, steps if made == before else (*steps, PackingStep("r", made)))

    def astype(self, dtype: Any, *, copy: bool = True) -> _Traced:  # noqa: ARG002
        if np.dtype(dtype) != self.dtype:
            raise _NoStepError
        return self

    def ravel(self) -> _Traced:
        return self.reshape(-1)

    def transpose(self, *axes: Any) -> _Traced:
        flat = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple(int(axis) % self.ndim for axis in flat) or tuple(range(self.ndim))[::-1]
        if sorted(order) != list(range(self.ndim)):
            raise _NoStepError
        if order == tuple(range(self.ndim)):
            return self
        return _Traced(
            [self.shape[axis] for axis in order], self.dtype, (*self.steps, PackingStep("t", order))
        )

    def __getitem__(self, index: Any) -> _Traced:
        """Take whole axes, and axes of one place; add axes."""
        parts = list(index) if isinstance(index, tuple) else [index]
        taken = sum(part is not None and part is not Ellipsis for part in parts)
        rest = [slice(None)] * (self.ndim - taken)
        at = next((place for place, part in enumerate(parts) if part is Ellipsis), len(parts))
        parts[at : at + 1] = rest
        extents, left = [], list(self.shape)
        for part in parts:
            if part is None:
                extents.append(1)
            elif (extent := left.pop(0)) == 1 and isinstance(part, int) and part in (0, -1):
                continue
            elif _is_whole(part, extent):
                extents.append(extent)
            else:
                raise _NoStepError
        return self.reshape(extents)

    def __array_function__(
        self, function: Any, _types: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> _Traced:
        if function is np.copy and kwargs == {"order": "C"}:  # np.ascontiguousarray asks nobody
            return self
        if function is np.pad and kwargs in ({}, {"constant_values": 0}):
            return self._pad(*args[1:])
        if function is np.moveaxis and not kwargs:
            return self._move(*args[1:])
        if function is transformed:
            return self._transform(*args[1:])
        if function is np.stack and not kwargs and len(args) == 1 and len(args[0]) == 1:
            return self.reshape((1, *self.shape))
        raise _NoStepError

    def _pad(self, around: Sequence[tuple[int, int]]) -> _Traced:
        numbers = tuple(int(number) for pair in around for number in pair)
        if len(numbers) != 2 * self.ndim:
            raise _NoStepError
        if not any(numbers):
            return self
        extents = [extent + sum(pair) for extent, pair in zip(self.shape, around, strict=True)]
        return _Traced(extents, self.dtype, (*self.steps, PackingStep("p", numbers)))

    def _transform(self, left: Matrix, right: Matrix) -> _Traced:
        entries = [number for matrix in (left, right) for row in matrix for number in row]
        pairs = [part for number in entries for part in number.as_integer_ratio()]
        if self.dtype != np.float32 or any(abs(number) > _MOST_INTEGER for number in pairs):
            raise _NoStepError
        step = PackingStep("m", (len(left), len(right), *pairs))
        return _Traced((*self.shape[:-2], len(left), len(right)), self.dtype, (*self.steps, step))

    def _move(self, source: int, target: int) -> _Traced:
        order = [axis for axis in range(self.ndim) if axis != source % self.ndim]
        order.insert(target % self.ndim, source % self.ndim)
        return self.transpose(order)


def _is_whole(part: Any, extent: int) -> bool:
    if isinstance(part, slice):
        return part.indices(extent) == (0, extent, 1)
    return isinstance(part, list) and part == list(range(extent))


_WEIGHTS = 1 << 32  # seeds of weights begin here, those of inputs are smaller
_LOOKED_AT = 1 << 16  # numbers of a weight


@dataclass(frozen=True)
class PlannedOperand:
    """An operand's line of the plan, and the file that it names, if any."""

    line: str
    member: Member | None


@dataclass(frozen=True)
class Redrawn:
    """A reference that computes with drawn weights; see `tasks.candidate.TaskReference`.

    Attributes
    ----------
    drawn
        Weights that are drawn.
    weights
        Other weights, in the network's shapes.
    """

    reference: TaskReference
    parameters: tuple[Parameter, ...]
    drawn: Mapping[int, Draw]
    weights: Mapping[int, Array]

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


def redrawn(default: Candidate, reference: TaskReference) -> Redrawn:
    """Return a reference that computes with drawn weights.

    Parameters
    ----------
    default
        The candidate of the task's default, which knows which constants are weights.
    """
    drawn = weight_draws(default, reference)
    parameters = [
        replace(parameter, value=drawn[place].values()) if place in drawn else parameter
        for place, parameter in enumerate(reference.parameters)
    ]
    weights = {place: plain for place, _own, plain in _constants(default, reference) if place not in drawn}
    return Redrawn(reference, tuple(parameters), drawn, weights)


def operand(place: int, parameter: Parameter, case: Case, arguments: Mapping[int, Array]) -> PlannedOperand:
    """Return an operand of a case in the layout of a candidate.

    Parameters
    ----------
    arguments
        The case's inputs, as `Case.arguments` reads them.
    """
    pack = parameter.pack or (parameter.layout.pack if parameter.layout else None)
    if (draw := case.drawn.get(place)) is not None and draw.shared:
        value = draw.values()
        if pack is None and parameter.value is not None and parameter.value.shape != value.shape:
            raise AssertionError("a weight is packed, but it is not known how")
        steps = recorded(pack, value) if pack else ()
        if pack and steps is None:
            return _stored(pack(value))
        shape = "x".join(map(str, draw.shape)) or "-"
        drawn = f"drawn {draw.dtype} {shape} {draw.seed} {draw.exponent} {int(draw.edges)}"
        return PlannedOperand(f"{drawn} {text(steps or ())}", None)
    plain = case.weights.get(place, arguments.get(place))
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

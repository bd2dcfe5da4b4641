"""The equations of ONNX for one step of a recurrent cell, written for one unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tvm import ir, tirx

from toolchain.models.recurrent.recurrence import Activation, Recurrence

# Activations that a recurrent node may name.

Expr: TypeAlias = ir.Expr


def _number(value: float) -> Expr:
    return tirx.const(value, "float32")


def _bounded(x: Expr, low: float, high: float) -> Expr:
    return tirx.max(tirx.min(x, _number(high)), _number(low))


def _softplus(x: Expr) -> Expr:
    return tirx.max(x, _number(0)) + tirx.log(_number(1) + tirx.exp(_number(0) - tirx.abs(x)))


Function = Callable[[Expr, Expr, Expr], Expr]

# Name -> of x, alpha and beta; which of them it takes, and what onnxruntime takes where a node gives none.
_FUNCTIONS: dict[str, tuple[Function, tuple[float, ...]]] = {
    "affine": (lambda x, a, b: a * x + b, (0.0, 0.0)),
    "elu": (lambda x, a, _b: tirx.Select(x < 0, a * (tirx.exp(x) - _number(1)), x), (1.0,)),
    "hardsigmoid": (lambda x, a, b: _bounded(a * x + b, 0, 1), (0.2, 0.5)),
    "leakyrelu": (lambda x, a, _b: tirx.Select(x < 0, a * x, x), (0.01,)),
    "relu": (lambda x, _a, _b: tirx.max(x, _number(0)), ()),
    "scaledtanh": (lambda x, a, b: a * tirx.tanh(b * x), (0.0, 0.0)),
    "sigmoid": (lambda x, _a, _b: tirx.sigmoid(x), ()),
    "softplus": (lambda x, _a, _b: _softplus(x), ()),
    "softsign": (lambda x, _a, _b: x / (_number(1) + tirx.abs(x)), ()),
    "tanh": (lambda x, _a, _b: tirx.tanh(x), ()),
    "thresholdedrelu": (lambda x, a, _b: tirx.Select(x > a, x, _number(0)), (0.0,)),
}


def activations(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> list[Activation]:
    """Return the activations of a node; each that has an alpha or a beta takes the next of the lists.

    Raises
    ------
    ValueError
        A name is none of the standard's.
    """
    left, other = list(alphas), list(betas)
    functions = []
    for name in names:
        known = _FUNCTIONS.get(name.lower())
        if known is None:
            raise ValueError(f"activation {name!r} is none of the standard's")
        given = [
            default.pop(0) if default else value
            for default, value in zip((left, other), known[1], strict=False)
        ]
        functions.append(Activation(name.lower(), *given))
    return functions


def activated(activation: Activation, x: Expr) -> Expr:
    """Return the expression of an activation applied to a number."""
    function, _defaults = _FUNCTIONS[activation.name]
    return function(x, _number(activation.alpha), _number(activation.beta))


class Unit(Protocol):
    """Access to the values of one hidden unit, by name.

    `h` and `c`: its state; `next`: the next `h`; `update`, `reset`: kept within a step; `bias`;
    `input`, `output`, `forget`: peepholes.
    """

    def load(self, name: str) -> Expr:
        """Return a value."""

    def store(self, name: str, value: Expr) -> None:
        """Emit the store of a value."""


@dataclass(frozen=True)
class Phase:
    """A part of a time step in which units do not depend on each other.

    Attributes
    ----------
    gates
        The gates whose products are computed.
    state
        The vector that is multiplied: `h`, or `reset`, which the previous phase stores.
    finish
        Emits the stores of a unit, from the inputs and products of the gates in the order of `gates`.
    """

    gates: tuple[int, ...]
    state: str
    finish: Callable[[Recurrence, Sequence[Activation], Sequence[Expr], Sequence[Expr], Unit], None]


def phases(of: Recurrence) -> list[Phase]:
    """Return the phases of a time step in order; within a phase, units do not depend on each other."""
    if of.cell == "LSTM":
        return [Phase((0, 1, 2, 3), "h", _lstm)]
    if of.cell == "RNN":
        return [Phase((0,), "h", _rnn)]
    if of.reset_after:
        return [Phase((0, 1, 2), "h", _gru_reset_after)]
    return [Phase((0, 1), "h", _gru_gates), Phase((2,), "reset", _gru_hidden)]


def buffers(of: Recurrence) -> list[str]:
    """Return the names of the values that a step keeps for every unit."""
    if of.cell == "LSTM":
        return ["h", "next", "c"]
    return ["h", "next", "update", "reset"] if of.cell == "GRU" else ["h", "next"]


def _lstm(
    of: Recurrence,
    functions: Sequence[Activation],
    inputs: Sequence[Expr],
    products: Sequence[Expr],
    unit: Unit,
) -> None:
    gate, candidate, last = functions
    let_in, let_out, forget, cell = (x + y for x, y in zip(inputs, products, strict=True))
    old = unit.load("c")
    if of.peepholes:
        let_in, forget = let_in + unit.load("input") * old, forget + unit.load("forget") * old
    let_in = _activated(of, gate, let_in)
    kept = tirx.const(1, "float32") - let_in if of.coupled else _activated(of, gate, forget)
    unit.store("c", kept * old + let_in * _activated(of, candidate, cell))
    new = unit.load("c")
    if of.peepholes:
        let_out = let_out + unit.load("output") * new
    unit.store("next", _activated(of, gate, let_out) * activated(last, new))


def _rnn(
    of: Recurrence,
    functions: Sequence[Activation],
    inputs: Sequence[Expr],
    products: Sequence[Expr],
    unit: Unit,
) -> None:
    unit.store("next", _activated(of, functions[0], inputs[0] + products[0]))


def _gru_reset_after(
    of: Recurrence,
    functions: Sequence[Activation],
    inputs: Sequence[Expr],
    products: Sequence[Expr],
    unit: Unit,
) -> None:
    gate, last = functions
    unit.store("update", _activated(of, gate, inputs[0] + products[0]))
    unit.store("reset", _activated(of, gate, inputs[1] + products[1]))
    hidden = inputs[2] + unit.load("reset") * (products[2] + unit.load("bias"))
    _mix(unit, _activated(of, last, hidden))


def _gru_gates(
    of: Recurrence,
    functions: Sequence[Activation],
    inputs: Sequence[Expr],
    products: Sequence[Expr],
    unit: Unit,
) -> None:
    update, reset = (_activated(of, functions[0], x + y) for x, y in zip(inputs, products, strict=True))
    unit.store("update", update)
    unit.store("reset", reset * unit.load("h"))


def _gru_hidden(
    of: Recurrence,
    functions: Sequence[Activation],
    inputs: Sequence[Expr],
    products: Sequence[Expr],
    unit: Unit,
) -> None:
    _mix(unit, _activated(of, functions[1], inputs[0] + products[0]))


def _mix(unit: Unit, hidden: Expr) -> None:
    update = unit.load("update")
    unit.store("next", (tirx.const(1, "float32") - update) * hidden + update * unit.load("h"))


def _activated(of: Recurrence, activation: Activation, x: Expr) -> Expr:
    if of.clip is not None:
        x = tirx.max(tirx.min(x, tirx.const(of.clip, "float32")), tirx.const(-of.clip, "float32"))
    return activated(activation, x)

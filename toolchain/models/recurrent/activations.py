"""Activations that a recurrent node may name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tvm import ir, tirx

from toolchain.models.recurrent.spec import Activation

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
    """Return the activations of a node; those that take an alpha or a beta take the next one given.

    Raises
    ------
    ValueError
        A name is none of the standard's.
    """
    left, other = list(alphas), list(betas)
    found = []
    for name in names:
        known = _FUNCTIONS.get(name.lower())
        if known is None:
            raise ValueError(f"activation {name!r} is none of the standard's")
        given = [own.pop(0) if own else value for own, value in zip((left, other), known[1], strict=False)]
        found.append(Activation(name.lower(), *given))
    return found


def activated(activation: Activation, x: Expr) -> Expr:
    """Return the activation of a number."""
    function, _defaults = _FUNCTIONS[activation.name]
    return function(x, _number(activation.alpha), _number(activation.beta))

"""onnxruntime's DynamicQuantizeLSTM: an LSTM of 8-bit weights, its inputs and states rounded to 8 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir.expr import GenericConst

from toolchain.arrays import Array
from toolchain.models.recurrent.cell import activations
from toolchain.models.recurrent.definition import define
from toolchain.models.recurrent.recurrence import GATES, Cell, Recurrence
from toolchain.quantities import counted

# Converts LSTM, GRU and RNN to Relax: one product for all inputs, then a loop over the steps.

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_FUNCTIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}

Inputs = Sequence[relax.Expr | None]


class Convert:
    """The converter of one cell."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def __call__(self, inputs: Inputs, attributes: dict[str, Any]) -> relax.Expr:
        """Return all outputs of the node, unused ones included."""
        x, weight, recurrent, bias, lengths, *states = [*inputs, *[None] * 8][:8]
        of = self.read(x, _shape(recurrent)[2], lengths, states[2], attributes)
        given = {
            "x": _convert_input_products(of, x, weight, bias),
            "r": _recurrent_weight(of, recurrent),
            "h0": states[0],
            "c0": states[1],
            "lengths": lengths,
        }
        if of.peepholes:
            given["peepholes"] = padded(of, relax.op.reshape(states[2], (of.directions, 3, of.hidden)))
        if of.reset_after:
            given["bias"] = _hidden_bias(of, bias)
        return emit_call(of, given)

    def read(
        self,
        x: relax.Expr,
        hidden: int,
        lengths: relax.Expr | None,
        peepholes: relax.Expr | None,
        attributes: dict[str, Any],
    ) -> Recurrence:
        """Return the node's recurrence, with the number of units that R has.

        Raises
        ------
        ValueError
            It cannot be compiled.
        """
        if str(x.ty.dtype) != "float32":
            raise ValueError(f"its type is {x.ty.dtype}; only float32 can be compiled")
        if attributes.get("layout", 0):
            raise ValueError("layout 1 is not brought to layout 0")
        steps, batch, _size = _shape(x)
        reverse = _DIRECTIONS[_text(attributes.get("direction", "forward"))]
        functions = [_text(name) for name in attributes.get("activations", ())]
        count = len(_FUNCTIONS[self.cell])
        functions = functions or list(_FUNCTIONS[self.cell]) * len(reverse)
        if len(functions) != count * len(reverse):
            raise ValueError(
                f"{counted(len(functions), 'activation')} for {counted(len(reverse), 'direction')}"
            )
        alphas, betas = (attributes.get(f"activation_{name}", ()) for name in ("alpha", "beta"))
        activation_list = activations(functions, list(alphas), list(betas))
        if attributes.get("hidden_size", hidden) != hidden:
            raise ValueError(f"its hidden_size is {attributes['hidden_size']}, but R is of {hidden}")
        return Recurrence(
            self.cell,
            steps,
            batch,
            hidden,
            reverse,
            tuple(
                tuple(activation_list[start : start + count])
                for start in range(0, len(activation_list), count)
            ),
            float(attributes["clip"]) if attributes.get("clip") else None,
            bool(self.cell == "LSTM" and attributes.get("input_forget", 0)),
            bool(self.cell == "GRU" and attributes.get("linear_before_reset", 0)),
            peepholes is not None,
            lengths is not None and not _full(lengths, steps),
        )


def emit_call(of: Recurrence, given: Mapping[str, relax.Expr | None]) -> relax.Expr:
    """Emit a recurrence's function and its call; return its outputs.

    Parameters
    ----------
    given
        The function's inputs, by name; a state that is None is 0.
    """
    builder = relax.BlockBuilder.current()
    zeros = relax.const(np.zeros((of.directions, of.batch, of.hidden), np.float32))
    arguments = [given[name] if given[name] is not None else zeros for name in of.parameters]
    arguments = [builder.emit(argument) for argument in arguments]
    function = builder.add_func(define(of), of.cell.lower())
    types = [relax.TensorType(shape, "float32") for shape in of.outputs.values()]
    result = builder.emit(relax.call_tir(function, arguments, types))
    return relax.Tuple([builder.emit(relax.TupleGetItem(result, place)) for place in range(len(of.outputs))])


def _shape(value: relax.Expr) -> tuple[int, ...]:
    return tuple(int(extent) for extent in value.ty.shape)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _full(lengths: relax.Expr, steps: int) -> bool:
    """Whether every sequence is known to have the full number of steps."""
    value = getattr(lengths, "value", None)
    return value is not None and bool((value.numpy() == steps).all())


def padded(of: Recurrence, value: relax.Expr) -> relax.Expr:
    """Return a value with its last axis, the units, padded with zeros."""
    *before, hidden = _shape(relax.BlockBuilder.current().normalize(value))
    if hidden == of.padded:
        return value
    zeros = relax.const(np.zeros((*before, of.padded - hidden), np.float32))
    return relax.op.concat([value, zeros], -1)


def _convert_input_products(
    of: Recurrence, x: relax.Expr, weight: relax.Expr, bias: relax.Expr | None
) -> relax.Expr:
    """Return the products of all steps' inputs with W, (steps x batch, directions x gates x units)."""
    *_, size = _shape(x)
    wide = of.directions * of.gates * of.padded
    split = relax.op.reshape(weight, (of.directions, of.gates, of.hidden, size))
    columns = padded(of, relax.op.permute_dims(split, (3, 0, 1, 2)))
    rows = relax.op.reshape(x, (of.steps * of.batch, size))
    product = relax.op.matmul(rows, relax.op.reshape(columns, (size, wide)))
    if bias is None:
        return product
    input_bias, state_bias = biases(of, bias)
    if of.reset_after:  # the last gate's is added behind the reset
        known = relax.op.strided_slice(state_bias, [1], [0], [2])
        none = relax.const(np.zeros((of.directions, 1, of.hidden), np.float32))
        state_bias = relax.op.concat([known, none], 1)
    total = padded(of, relax.op.add(input_bias, state_bias))
    return relax.op.add(product, relax.op.reshape(total, (wide,)))


def biases(of: Recurrence, bias: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Return the biases of W and of R, each (directions, gates, units)."""
    wide = of.gates * of.hidden
    halves = (relax.op.strided_slice(bias, [1], [start], [start + wide]) for start in (0, wide))
    input_bias, state_bias = (relax.op.reshape(half, (of.directions, of.gates, of.hidden)) for half in halves)
    return input_bias, state_bias


def _hidden_bias(of: Recurrence, bias: relax.Expr | None) -> relax.Expr:
    if bias is None:
        return relax.const(np.zeros((of.directions, of.padded), np.float32))
    last = relax.op.strided_slice(biases(of, bias)[1], [1], [2], [3])
    return padded(of, relax.op.reshape(last, (of.directions, of.hidden)))


def _recurrent_weight(of: Recurrence, recurrent: relax.Expr) -> relax.Expr:
    split = relax.op.reshape(recurrent, (of.directions, of.gates, of.hidden, of.hidden))
    return padded(of, relax.op.permute_dims(split, (0, 3, 1, 2)))


CELLS: dict[str, Convert] = {cell: Convert(cell) for cell in GATES}
"""Converters by operator."""


_MOST = 255.0


class ConvertDynamic(Convert):
    """The converter of (X, W, R, B, lengths, h0, c0, P, W's scale, zero point, R's scale, zero point)."""

    def __init__(self) -> None:
        super().__init__("LSTM")

    def __call__(self, inputs: Sequence[relax.Expr | None], attributes: dict[str, Any]) -> relax.Expr:
        """Return all outputs of the node, unused ones included."""
        x, weight, recurrent, bias, lengths, h0, c0, peepholes, *rest = [*inputs, *[None] * 12][:12]
        w, w_scale = _integers(weight, rest[0], rest[1])
        r, r_scale = _integers(recurrent, rest[2], rest[3])
        of = replace(self.read(x, r.shape[1], lengths, peepholes, attributes), rounded=True)
        split = r.reshape(of.directions, of.hidden, of.gates, of.hidden)
        given = {
            "x": _input_products(of, x, w, w_scale, bias),
            "r": relax.const(_padded(of, split)),
            "h0": h0,
            "c0": c0,
            "factors": relax.const(_padded(of, _by_unit(of, r_scale))),
            "lengths": lengths,
        }
        if peepholes is not None:
            given["peepholes"] = padded(of, relax.op.reshape(peepholes, (of.directions, 3, of.hidden)))
        return emit_call(of, given)


def _integers(weight: Any, scale: Any, zero: Any) -> tuple[Array, Array]:
    """Return constant weights less their zero points, and their scales."""
    if not all(isinstance(constant, GenericConst) for constant in (weight, scale, zero)):
        raise ValueError("its weights, scales and zero points must be constants")
    values, scales, zeros = (constant.value.numpy() for constant in (weight, scale, zero))
    by_column = zeros.reshape(zeros.shape[0], 1, -1).astype(np.float32)
    return values.astype(np.float32) - by_column, scales.astype(np.float32)


def _by_unit(of: Recurrence, scales: Array) -> Array:
    """Return scales of directions, or of directions and columns, as (directions, gates, units)."""
    wide = scales.reshape(of.directions, -1)
    return np.broadcast_to(wide, (of.directions, of.gates * of.hidden)).reshape(-1, of.gates, of.hidden)


def _padded(of: Recurrence, values: Array) -> Array:
    rest = [(0, 0)] * (values.ndim - 1)
    return np.pad(values, [*rest, (0, of.padded - of.hidden)])


def _input_products(of: Recurrence, x: relax.Expr, weight: Array, scales: Array, bias: Any) -> relax.Expr:
    """Return the products of all steps' inputs, rounded by one scale, and the bias."""
    size = weight.shape[1]
    wide = of.directions * of.gates * of.padded
    split = weight.reshape(of.directions, size, of.gates, of.hidden).transpose(1, 0, 2, 3)
    columns = relax.const(np.ascontiguousarray(_padded(of, split).reshape(size, wide)))
    steps, step = _rounded(relax.op.reshape(x, (of.steps * of.batch, size)))
    factors = relax.const(_padded(of, _by_unit(of, scales)).reshape(wide))
    product = relax.op.multiply(relax.op.matmul(steps, columns), relax.op.multiply(step, factors))
    if bias is None:
        return product
    total = padded(of, relax.op.add(*biases(of, bias)))
    return relax.op.add(product, relax.op.reshape(total, (wide,)))


def _rounded(x: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Return a tensor in quantisation steps from 0, and the step size, as DynamicQuantizeLinear has it."""
    builder = relax.BlockBuilder.current()
    none, most = relax.const(0.0, "float32"), relax.const(_MOST, "float32")
    low = builder.emit(relax.op.minimum(relax.op.min(x), none))
    high = builder.emit(relax.op.maximum(relax.op.max(x), none))
    size = builder.emit(relax.op.divide(relax.op.subtract(high, low), most))
    step = builder.emit(relax.op.where(relax.op.equal(size, none), relax.const(1.0, "float32"), size))
    start = relax.op.round(relax.op.subtract(none, relax.op.divide(low, step)))
    zero = builder.emit(relax.op.minimum(relax.op.maximum(start, none), most))
    places = relax.op.add(relax.op.round(relax.op.divide(x, step)), zero)
    inside = relax.op.minimum(relax.op.maximum(places, none), most)
    return builder.emit(relax.op.subtract(inside, zero)), step

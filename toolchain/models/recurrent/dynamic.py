"""onnxruntime's DynamicQuantizeLSTM: an LSTM of 8-bit weights, its inputs and states rounded to 8 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir.expr import GenericConst

from toolchain.arrays import Array
from toolchain.models.recurrent.convert import Convert, biases, emit_call, padded
from toolchain.models.recurrent.spec import Recurrence

_MOST = 255.0


class ConvertDynamic(Convert):
    """The converter of (X, W, R, B, lengths, h0, c0, P, W's scale, zero point, R's scale, zero point)."""

    def __init__(self) -> None:
        super().__init__("LSTM")

    def __call__(self, inputs: Sequence[relax.Expr | None], attributes: dict[str, Any]) -> relax.Expr:
        """Return the outputs, those that nothing reads included."""
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
    if not all(isinstance(each, GenericConst) for each in (weight, scale, zero)):
        raise ValueError("its weights, scales and zero points must be constants")
    values, scales, zeros = (each.value.numpy() for each in (weight, scale, zero))
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
    """Return a tensor in steps from 0, and the size of one, as DynamicQuantizeLinear finds it."""
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

"""Converters of arithmetic operators for which TVM's importer deviates from the ONNX standard."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from tvm import relax, te, tirx
from tvm.ir.expr import GenericConst

from toolchain.tvm_compat import Converter

Attributes = dict[str, Any]

MOST_MULTIPLIED = 16
"""Largest constant exponent that is written as multiplications, each of which rounds once."""


def _dtype(value: relax.Expr) -> str:
    return str(value.ty.dtype)


def _elu(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    """Convert `Elu` in the type of its input; TVM's constants are always float32."""
    x, dtype = inputs[0], _dtype(inputs[0])
    below = relax.op.nn.relu(relax.op.subtract(relax.const(1.0, dtype), relax.op.exp(x)))
    scaled = relax.op.multiply(relax.const(-float(attributes.get("alpha", 1.0)), dtype), below)
    return relax.op.add(scaled, relax.op.nn.relu(x))


def _thresholded(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    """Convert `ThresholdedRelu`; TVM multiplies by 0, and -inf * 0 is NaN."""
    x, dtype = inputs[0], _dtype(inputs[0])
    above = relax.op.greater(x, relax.const(float(attributes.get("alpha", 1.0)), dtype))
    return relax.op.where(above, x, relax.const(0.0, dtype))


def _power(inputs: list[relax.Expr], _attributes: Attributes) -> relax.Expr:
    """Convert `Pow`; the result has the type of the base."""
    base, exponent = inputs
    dtype, other = _dtype(base), _dtype(exponent)
    exact = dtype if "float" in dtype else "float64"  # TVM's power supports only floats
    builder = relax.BlockBuilder.current()
    floats = base if dtype == exact else builder.emit(relax.op.astype(base, exact))
    if _is_one_number(exponent, base.ty.ndim):
        result = _raised(builder, floats, float(exponent.value.numpy().reshape(())))
    else:
        by = exponent if other == exact else relax.op.astype(exponent, exact)
        result = relax.op.power(floats, by)
    return result if dtype == exact else relax.op.astype(result, dtype)


def _is_one_number(value: relax.Expr, rank: int) -> bool:
    return isinstance(value, GenericConst) and value.value.numpy().size == 1 and value.ty.ndim <= rank


def _raised(builder: relax.BlockBuilder, base: relax.Expr, by: float) -> relax.Expr:
    """Return a power; exponents from 3 on become multiplications, since TVM's power would warn on stderr."""
    if not 3 <= by <= MOST_MULTIPLIED:
        return relax.op.power(base, relax.const(by, _dtype(base)))
    left = int(by) if by.is_integer() else int(by) - 1
    rest = by - left
    result = None if not rest else builder.emit(relax.op.power(base, relax.const(rest, _dtype(base))))
    square = base  # base^1, base^2, base^4, …
    while left:
        if left % 2:
            result = square if result is None else builder.emit(relax.op.multiply(result, square))
        left //= 2
        if left:
            square = builder.emit(relax.op.multiply(square, square))
    return result


def _modulo(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    """Convert `Mod`: the result has the divisor's sign, or the dividend's with `fmod`; so for infinities."""
    x, y = inputs
    if attributes.get("fmod", 0):
        return relax.op.mod(x, y)
    if "float" not in _dtype(x):
        return relax.op.floor_mod(x, y)
    zero = relax.const(0.0, _dtype(x))
    rest = relax.op.mod(x, y)
    signs = relax.op.logical_xor(relax.op.less(rest, zero), relax.op.less(y, zero))
    wrong = relax.op.logical_and(relax.op.not_equal(rest, zero), signs)
    return relax.op.where(wrong, relax.op.add(rest, y), rest)


def _equal(inputs: list[relax.Expr], _attributes: Attributes) -> relax.Expr:
    """Convert `Equal`; booleans by xor, since LLVM cannot compare TVM's booleans."""
    x, y = inputs
    if _dtype(x) == "bool":
        return relax.op.logical_not(relax.op.logical_xor(x, y))
    return relax.op.equal(x, y)


def _shift(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    """Convert `BitShift`: a count that is negative or at least the type's width gives 0."""
    x, count = inputs
    dtype = _dtype(x)
    signed, bits = not dtype.startswith("u"), np.dtype(dtype).itemsize * 8
    last, none = relax.const(bits - 1, dtype), relax.const(0, dtype)
    outside = relax.op.greater(count, last)
    if signed:
        outside = relax.op.logical_or(outside, relax.op.less(count, none))
    safe = relax.op.where(outside, last, count)
    if attributes.get("direction", b"LEFT") == b"LEFT":
        return relax.op.where(outside, none, relax.op.left_shift(x, safe))
    moved = relax.op.right_shift(x, safe)
    return moved if signed else relax.op.where(outside, none, moved)


def _cumulated_product(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    data, axis = inputs
    if not isinstance(axis, GenericConst):
        raise ValueError("the axis must be a constant")
    along = int(axis.value.numpy().reshape(-1)[0])
    backwards = bool(attributes.get("reverse", 0))
    if backwards:
        data = relax.op.flip(data, along)
    result = relax.op.cumprod(data, along, exclusive=bool(attributes.get("exclusive", 0)))
    return relax.op.flip(result, along) if backwards else result


def _bit_cast(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
    dtype = helper.tensor_dtype_to_np_dtype(attributes["to"]).name
    if "bool" in (dtype, _dtype(inputs[0])):  # of one byte, which holds 0 or 1
        return relax.op.astype(inputs[0], dtype)

    def reinterpreted(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *index: tirx.reinterpret(dtype, x(*index)), name="bit_cast")

    return relax.BlockBuilder.current().call_te(reinterpreted, inputs[0])


def _extreme(largest: bool) -> Converter:
    """Return a converter that starts from infinity; TVM starts from the largest finite number instead."""
    limit = float("-inf") if largest else float("inf")
    pick = tirx.max if largest else tirx.min
    plain = relax.op.max if largest else relax.op.min
    reducer = te.comm_reducer(
        lambda x, y: pick(x, y), lambda dtype: tirx.const(limit, dtype), name="max" if largest else "min"
    )

    def converted(inputs: list[relax.Expr], attributes: Attributes) -> relax.Expr:
        x = inputs[0]
        rank, dtype = x.ty.ndim, _dtype(x)
        axes = attributes.get("axes")
        if len(inputs) > 1 and inputs[1] is not None:
            if not isinstance(inputs[1], GenericConst):
                raise ValueError("the axes must be constants")
            axes = inputs[1].value.numpy().tolist()
        along = sorted(int(axis) % rank for axis in axes or range(rank))
        keep = bool(attributes.get("keepdims", 1))
        if dtype == "bool":
            return relax.op.astype(plain(relax.op.astype(x, "int8"), along, keep), "bool")
        if "float" not in dtype:
            return plain(x, along, keep)

        def reduced(data: te.Tensor) -> te.Tensor:
            over = {axis: te.reduce_axis((0, data.shape[axis]), f"k{axis}") for axis in along}
            shape = [
                1 if axis in over else data.shape[axis] for axis in range(rank) if keep or axis not in over
            ]

            def value(*index: Any) -> Any:
                left = iter(index)
                places = []
                for axis in range(rank):
                    place = next(left) if keep or axis not in over else None
                    places.append(over.get(axis, place))
                return reducer(data(*places), axis=list(over.values()))

            return te.compute(shape, value, name="extreme")

        return relax.BlockBuilder.current().call_te(reduced, x)

    return converted


ARITHMETIC: dict[str, Converter] = {
    "BitCast": _bit_cast,
    "BitShift": _shift,
    "CumProd": _cumulated_product,
    "Elu": _elu,
    "Equal": _equal,
    "Mod": _modulo,
    "Pow": _power,
    "ReduceMax": _extreme(True),
    "ReduceMin": _extreme(False),
    "ThresholdedRelu": _thresholded,
}
"""Converters by operator."""

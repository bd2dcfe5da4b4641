"""Converters of dynamic rounding, and of what `quantising/graph.py` writes."""

from __future__ import annotations

from typing import Any

from tvm import relax

from toolchain.models.quantising.powers_of_two.exponents import HIGH
from toolchain.models.quantising.powers_of_two.graph import PLAIN, ROUND, SUMMED
from toolchain.tvm_compat import Converter


def _convolution(inputs: list[relax.Expr], attributes: dict[str, Any]) -> relax.Expr:
    """Convert a convolution to 32-bit sums that are shifted right and clipped."""
    x, weight, bias, right, low, high, *summed = inputs
    sums = relax.op.nn.conv2d(
        x, weight, strides=list(attributes["strides"]), padding=list(attributes["pads"]), out_dtype="int32"
    )
    if summed:
        residual, left = summed
        sums = relax.op.add(sums, relax.op.left_shift(relax.op.astype(residual, "int32"), left))
    steps = relax.op.right_shift(relax.op.add(sums, bias), right)
    ends = [int(end.value.numpy()) for end in (low, high)]
    return relax.op.astype(relax.op.clip(steps, *ends), "int8")


def _rounded(inputs: list[relax.Expr], _attributes: dict[str, Any]) -> relax.Expr:
    """Convert rounding to the nearest step, halves upwards, clipped to 8 bits."""
    x, steps = inputs
    more = relax.op.add(relax.op.multiply(x, steps), relax.const(0.5, "float32"))
    return relax.op.astype(relax.op.clip(relax.op.floor(more), -HIGH, HIGH), "int8")


def _dynamic(inputs: list[relax.Expr], _attributes: dict[str, Any]) -> relax.Expr:
    """Convert `DynamicQuantizeLinear`; the scale of zeros is 1, as onnxruntime's. TVM divides them by 0."""
    (x,) = inputs
    builder, zero = relax.BlockBuilder.current(), relax.const(0.0, "float32")
    least = builder.emit(relax.op.minimum(zero, relax.op.min(x)))
    most = relax.op.maximum(zero, relax.op.max(x))
    step = builder.emit(relax.op.divide(relax.op.subtract(most, least), relax.const(255.0, "float32")))
    none = relax.op.equal(step, zero)
    scale = builder.emit(relax.op.where(none, relax.const(1.0, "float32"), step))
    below = relax.op.subtract(zero, relax.op.divide(least, scale))
    middle = builder.emit(relax.op.astype(relax.op.round(relax.op.clip(below, 0, 255)), "uint8"))
    return relax.Tuple([relax.op.quantize(x, scale, middle, axis=0, out_dtype="uint8"), scale, middle])


INTEGERS: dict[str, Converter] = {
    "DynamicQuantizeLinear": _dynamic,
    PLAIN: _convolution,
    SUMMED: _convolution,
    ROUND: _rounded,
}
"""Converters by operator; see `converters.CONVERTERS`."""

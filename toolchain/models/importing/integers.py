"""Converters of the rounding and the integer convolutions that `quantising/graph.py` writes."""

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


INTEGERS: dict[str, Converter] = {PLAIN: _convolution, SUMMED: _convolution, ROUND: _rounded}
"""Converters by operator; see `converters.CONVERTERS`."""

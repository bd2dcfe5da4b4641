"""Rounds a state to 8 bits before it is multiplied, with a new scale in each step.

This follows onnxruntime's DynamicQuantizeLinear: the range is from the smallest to the largest number, and 0
is representable. Each row of the batch has its own scale, as in onnxruntime with a thread for each row.
"""

from __future__ import annotations

from tvm import tirx

from toolchain.models.recurrent.activations import Expr

_MOST = 255.0


def _float(value: float) -> Expr:
    return tirx.const(value, "float32")


def size_of_step(low: Expr, high: Expr) -> Expr:
    """Return the size of a step for numbers between `low`, 0 at most, and `high`, 0 at least."""
    size = (high - low) / _float(_MOST)
    return tirx.Select(tirx.EQ(size, _float(0)), _float(1), size)


def zero_point(low: Expr, size: Expr) -> Expr:
    """Return the step that 0 is, counted from `low`."""
    return tirx.max(tirx.min(tirx.round(_float(0) - low / size), _float(_MOST)), _float(0))


def steps_of_state(value: Expr, size: Expr, zero: Expr) -> Expr:
    """Return a number in steps from 0, a float that is an integer."""
    step = tirx.round(value / size) + zero
    return tirx.max(tirx.min(step, _float(_MOST)), _float(0)) - zero

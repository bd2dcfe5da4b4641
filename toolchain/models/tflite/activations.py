"""Activations that are part of another operator: limits of its result."""

from __future__ import annotations

import math

import numpy as np

from toolchain.models.tflite.network import Quantisation

Bounds = tuple[float, float]
"""Least and greatest number."""

FUSED: dict[int, Bounds] = {
    0: (-math.inf, math.inf),  # NONE
    1: (0.0, math.inf),  # RELU
    2: (-1.0, 1.0),  # RELU_N1_TO_1
    3: (0.0, 6.0),  # RELU6
}
"""The schema's `ActivationFunctionType` -> limits. TANH and SIGN_BIT are made by no converter."""


def in_integers(bounds: Bounds, rule: Quantisation, dtype: str) -> Bounds:
    """Return the limits of a quantised tensor's integers: those of its type, and of `bounds`."""
    ends = np.iinfo(dtype)
    low, high = (np.rint(bound / float(rule.scale)) + int(rule.zero) for bound in bounds)
    return max(float(low), float(ends.min)), min(float(high), float(ends.max))


def is_implied(bounds: Bounds, rule: Quantisation, dtype: str) -> bool:
    """Whether rounding to the integers of a quantised tensor limits numbers to `bounds` by itself."""
    ends = np.iinfo(dtype)
    low, high = (np.rint(bound / float(rule.scale)) + int(rule.zero) for bound in bounds)
    return bool(low <= ends.min and high >= ends.max)

"""Scales and zero points: which real number an integer stands for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolchain.arrays import Array

TOP = 255
"""Largest integer of an activation; the smallest is 0."""

WEIGHT_TOP = 127
"""Largest magnitude of a weight. -128 is not used: two products of it and an activation would not fit 16
bits, in which CPUs without dot products add them."""

LEAST, MOST = 1e-16, 1e16
"""Range of scales. A product of two and a quotient by a third then stay normal numbers of float32."""

BIAS_TOP = 2**22
"""Largest magnitude of a bias in steps of the sums. Sums stay exact in float32 (below 2**24, decision 55),
and products that are so much smaller than the bias are far less than a step of the result."""


@dataclass(frozen=True)
class Scale:
    """The integer n of an activation stands for (n - zero) * step.

    Attributes
    ----------
    step
        A float32, as exact as the graph stores it.
    zero
        The integer that stands for 0.0, from 0 to 255.
    """

    step: float
    zero: int

    def implies(self, low: float, high: float) -> bool:
        """Whether rounding to these integers limits values to a range, as a Relu or Clip does."""
        step = np.float32(self.step)
        below, above = (np.rint(np.float32(end) / step) + self.zero for end in (low, high))
        return bool(below <= 0 and above >= TOP)


def scale_for(low: float, high: float) -> Scale:
    """Return the scale whose integers cover a range; 0 is always in it, and exact.

    A tensor of zeros gets scale 1.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return Scale(1.0, 0)
    step = float(np.float32(min(max((high - low) / TOP, LEAST), MOST)))
    return Scale(step, int(np.clip(np.rint(-low / step), 0, TOP)))


@dataclass(frozen=True)
class IntegerWeights:
    """Weights and bias of a layer as integers.

    Attributes
    ----------
    weight
        int8, in the shape of the original; from -127 to 127.
    steps
        float32 [out]: scale of each output channel.
    bias
        int32 [out], in steps of the sums: the scale of the input times `steps`.
    """

    weight: Array
    steps: Array
    bias: Array


def integer_weights(weight: Array, bias: Array, axis: int, source: Scale) -> IntegerWeights:
    """Return the integers of a layer's weights and bias.

    Each output channel's scale is its largest weight over 127, or more if its bias needs it.

    Parameters
    ----------
    weight
        float32; `axis` is that of the output channels.
    bias
        float32 [out].
    source
        Scale of the layer's input.
    """
    along = [-1 if each == axis else 1 for each in range(weight.ndim)]
    rest = tuple(each for each in range(weight.ndim) if each != axis)
    largest = np.abs(weight).max(axis=rest, initial=0).astype(np.float64)
    needed = np.abs(bias.astype(np.float64)) / (source.step * BIAS_TOP)
    steps = np.maximum(largest / WEIGHT_TOP, needed)
    steps = np.clip(np.where(steps > 0, steps, 1.0), LEAST, MOST).astype(np.float32)
    rounded = np.rint(weight / steps.reshape(along))
    sums = (np.float32(source.step) * steps).astype(np.float64)
    return IntegerWeights(
        np.clip(rounded, -WEIGHT_TOP, WEIGHT_TOP).astype(np.int8),
        steps,
        np.clip(np.rint(bias / sums), -BIAS_TOP, BIAS_TOP).astype(np.int32),
    )

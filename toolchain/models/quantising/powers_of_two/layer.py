"""A convolution in integers: the description from which network, reference and accelerator code are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolchain.arrays import Array
from toolchain.models.quantising.powers_of_two.exponents import HIGH, Choose, Weights, rounded
from toolchain.models.quantising.powers_of_two.limits import (
    LEAST_RIGHT,
    MOST_COMMON,
    MOST_DIAGONAL,
    MOST_RIGHT,
)
from toolchain.models.quantising.powers_of_two.sites import Site, StoredConvolution

EXACT = 2**24
"""Whole numbers below are exact in float32."""


@dataclass(frozen=True)
class Layer:
    """`result = clip((conv(source, weight) + residual * 2**left + bias) >> right)`, in 32 bits.

    Attributes
    ----------
    site
        The site from which it is made; tensor names are the same.
    weight
        int8 [out, in, height, width].
    bias
        int32 [out], including the half step that makes the shift round.
    right
        int32 [out]: right shift of the sums.
    left
        int32 [out]: left shift of the residual; zero without a residual.
    low, high
        Range to which results are clipped.
    """

    site: Site
    weight: Array
    bias: Array
    right: Array
    left: Array
    low: int
    high: int


def layer_of(site: Site, exponents: Mapping[str, int], choose: Choose) -> Layer:
    """Return the integer form of a convolution: integer weights, biases and shifts.

    Parameters
    ----------
    exponents
        Exponent of each tensor that it reads or writes; the integer n stands for n * 2**exponent.
    choose
        Chooses the exponents of the weights, one for each output channel.

    Raises
    ------
    ValueError
        No shift gives the sums and the residual the same scale.
    """
    source, result = exponents[site.source], exponents[site.result]
    least, most = result - source - MOST_RIGHT, result - source - LEAST_RIGHT
    weights = Weights(site.weight)
    if site.residual:
        # All channels share a left shift; a diagonal matrix of powers of two does the rest.
        beside = exponents[site.residual] - source
        bounds = [
            (max(least, beside - left - MOST_DIAGONAL), min(most, beside - left))
            for left in range(MOST_COMMON + 1)
        ]
    else:
        bounds = [(least, most)]
    chosen = [choose(weights, low, high) for low, high in bounds if low <= high]
    if not chosen:
        raise ValueError(f"{site.name}: no shift gives its sums and its residual the same scale")
    exponent = min(chosen, key=lambda each: each[1])[0]
    right = (result - source - exponent).astype(np.int32)
    left = exponents[site.residual] - source - exponent if site.residual else np.zeros_like(right)
    bias = np.ldexp(site.bias.astype(np.float64), -(source + exponent)) + np.ldexp(1.0, right - 1)
    return Layer(
        site,
        rounded(site.weight, exponent.reshape(-1, 1, 1, 1)).astype(np.int8),
        np.clip(np.rint(bias), -(2**30), 2**30).astype(np.int32),
        right,
        left.astype(np.int32),
        int(rounded(np.array(max(site.low, -1e9)), result)),
        int(rounded(np.array(min(site.high, 1e9)), result)),
    )


@dataclass(frozen=True)
class RoundedConvolution:
    """A float convolution whose operands and sums are integer multiples of powers of two.

    Attributes
    ----------
    weight, bias
        Rounded weights and bias in float32.
    step
        float32 [out]: the step of which each output is a multiple.
    """

    weight: Array
    bias: Array
    step: Array


def rounded_convolution(convolution: StoredConvolution, exponent: int, choose: Choose) -> RoundedConvolution:
    """Return a convolution whose sums are exact in float32 in any order of addition.

    Parameters
    ----------
    exponent
        Exponent of the tensor that it reads, whose values are multiples of 2**exponent.
    choose
        Chooses the exponents of the weights, one for each output channel.
    """
    weights = Weights(convolution.weight)
    chosen, _ = choose(weights, -126, 126)
    while True:
        across = chosen.reshape(-1, *[1] * (convolution.weight.ndim - 1))
        whole = rounded(convolution.weight, across)
        bias = np.rint(np.ldexp(convolution.bias.astype(np.float64), -(exponent + chosen)))
        largest = HIGH * np.abs(whole).sum(axis=(1, 2, 3), dtype=np.float64) + np.abs(bias)
        if (beyond := largest >= EXACT).any():
            chosen = chosen + beyond  # coarser, where sums would need more bits
            continue
        step = np.ldexp(np.float32(1), exponent + chosen)
        return RoundedConvolution(
            np.ldexp(whole, across).astype(np.float32), (bias * step).astype(np.float32), step
        )

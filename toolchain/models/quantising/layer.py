"""A convolution in integers: one row of the table that network, reference and accelerator are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolchain.models.quantising.exponents import HIGH, Choose, Weights, rounded
from toolchain.models.quantising.limits import LEAST_RIGHT, MOST_COMMON, MOST_DIAGONAL, MOST_RIGHT
from toolchain.models.quantising.reading import Array
from toolchain.models.quantising.sites import Convolution, Site

EXACT = 2**24
"""Whole numbers below are exact in float32."""


@dataclass(frozen=True)
class Layer:
    """`result = clip((conv(source, weight) + residual * 2**left + bias) >> right)`, in 32 bits.

    Attributes
    ----------
    site
        What it is made from; tensors are named as there.
    weight
        int8 [out, in, height, width].
    bias
        int32 [out], with the half that makes the shift round.
    right
        int32 [out]: what sums are shifted by.
    left
        int32 [out]: what the residual is shifted by; zero without one.
    low, high
        What results are clipped to.
    """

    site: Site
    weight: Array
    bias: Array
    right: Array
    left: Array
    low: int
    high: int


def layer_of(site: Site, exponents: Mapping[str, int], choose: Choose) -> Layer:
    """Return a convolution in integers.

    Parameters
    ----------
    exponents
        Of the tensors that it reads and writes.

    Raises
    ------
    ValueError
        No shift brings its sums and its residual together.
    """
    source, result = exponents[site.source], exponents[site.result]
    least, most = result - source - MOST_RIGHT, result - source - LEAST_RIGHT
    weights = Weights(site.weight)
    if site.residual:
        # All channels share a left shift; a diagonal of powers of two does the rest.
        beside = exponents[site.residual] - source
        bounds = [
            (max(least, beside - left - MOST_DIAGONAL), min(most, beside - left))
            for left in range(MOST_COMMON + 1)
        ]
    else:
        bounds = [(least, most)]
    chosen = [choose(weights, low, high) for low, high in bounds if low <= high]
    if not chosen:
        raise ValueError(f"{site.name}: no shift brings its sums and its residual together")
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
    """A convolution that stays in floats, of operands and sums that are whole multiples of powers of two.

    Attributes
    ----------
    weight, bias
        As they were, rounded; float32.
    step
        [out], float32: what each output is a multiple of.
    """

    weight: Array
    bias: Array
    step: Array


def rounded_convolution(convolution: Convolution, exponent: int, choose: Choose) -> RoundedConvolution:
    """Return a convolution whose sums are exact in float32, whatever the order they are added up in.

    Parameters
    ----------
    exponent
        Of the tensor that it reads.
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

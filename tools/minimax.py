"""Find the coefficients of `toolchain/backends/packed/loops/arithmetic.py`: python tools/minimax.py

prints per polynomial its largest relative error in the function that it serves, and its coefficients.
Lawson's algorithm: least squares, again and again, each point's weight growing with its error, comes to
the smallest largest error (C. L. Lawson, 1961). Each coefficient is rounded to float32, and those of
higher powers fitted again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.floating[Any]]
_ROUNDS = 300


def points(low: float, high: float, count: int = 2000) -> Array:
    """Return Chebyshev's points of an interval; an even number: 0 is none of [-a, a]."""
    return (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(count) + 0.5) / count)


def fitted(powers: Array, target: Array, weight: Array) -> Array:
    """Return c with the smallest largest |weight (powers @ c - target)|."""
    scale = 1 / np.abs(powers * weight[:, None]).max(axis=0)
    importance = np.ones(len(target))
    least = np.inf
    best: Array = np.zeros(powers.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(importance) * weight
        found: Array = np.linalg.lstsq(powers * scale * root[:, None], target * root, rcond=None)[0] * scale
        errors = np.abs(weight * (powers @ found - target))
        if errors.max() < least:
            least, best = errors.max(), found
        importance *= errors / errors.max() + 1e-9
        importance /= importance.sum()
    return best


def polynomial(x: Array, target: Array, weight: Array, degree: int) -> tuple[float, list[float]]:
    """Return the largest error that is left, and the coefficients, lowest power first."""
    powers = x[:, None] ** np.arange(degree + 1)
    rounded: list[float] = []
    for power in range(degree + 1):
        rest = target - polyval(x, rounded) if rounded else target
        rounded.append(float(np.float32(fitted(powers[:, power:], rest, weight)[0])))
    return float(np.abs(weight * (polyval(x, rounded) - target)).max()), rounded


def main() -> None:
    """Print them."""
    x = points(-math.log(2) / 2 * 1.001, math.log(2) / 2 * 1.001)
    series = polyval(x, [1 / math.factorial(k + 2) for k in range(18)])
    print("_EXP", *polynomial(x, series, x * x / np.abs(np.expm1(x)), 4))
    x = points(-0.501, 0.501)
    print("_EXP2", *polynomial(x, np.expm1(x * math.log(2)) / x, abs(x) / np.exp2(x), 5))
    x = points(math.sqrt(0.5) - 1, math.sqrt(2) - 1)
    near = polyval(x, [(-1) ** k / (k + 3) for k in range(12)])
    target: Array = np.where(np.abs(x) > 0.01, (np.log1p(x) - x + x * x / 2) / x**3, near)
    print("_LOG", *polynomial(x, target, np.abs(x**3 / np.log1p(x)), 8))
    x = points(1e-7, 0.9)
    ratio: Array = special.erf(x) / x
    print("_ERF", *polynomial(x * x, ratio - 1, 1 / ratio, 5))
    x = points(0.9, 4)
    rest: Array = special.erfc(x)
    print("_ERF_REST", *polynomial(x, np.log2(rest), math.log(2) * rest / special.erf(x), 6))


if __name__ == "__main__":
    main()

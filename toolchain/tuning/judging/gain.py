"""Computes how much faster one of two candidates is, with a confidence interval, from alternating times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, expm1, inf, log, sqrt
from statistics import fmean, median, stdev

# Student's t for a two-sided 95 % interval, by degrees of freedom from 1; the last value serves beyond.
# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)
_MOST = 700.0  # largest exponent: exp of more overflows


@dataclass(frozen=True)
class Gain:
    """The share of the time that one variant saves against another.

    Attributes
    ----------
    share
        Geometric mean over the rounds: 0.03 is 3 % less time, a negative share is more time.
    uncertainty
        Distance from `share` to the lower end of its 95 % confidence interval, assuming comparable rounds.
    """

    share: float
    uncertainty: float

    @property
    def sure(self) -> bool:
        """Whether the variant is faster by more than the noise."""
        return self.share > self.uncertainty

    def __str__(self) -> str:
        return f"{abs(self.share):.1%} ± {self.uncertainty:.1%} {'faster' if self.share >= 0 else 'slower'}"


def gain(before: Sequence[float], after: Sequence[float]) -> Gain:
    """Return the share of time that `after` saves against `before`.

    Parameters
    ----------
    before, after
        Times in ms. The n-th times of both were measured one after the other, so that a temporary slowdown
        affects both. Surplus times of the longer sequence are ignored.
    """
    # Logarithms treat a round that delayed `before` and one that delayed `after` symmetrically.
    ratios = [log(new / old) for old, new in zip(before, after, strict=False)]
    if len(ratios) < 2:
        return Gain(-expm1(sum(ratios)), inf)
    degrees = len(ratios) - 1
    half = _T[min(degrees, len(_T)) - 1] * stdev(ratios) / sqrt(len(ratios))
    middle = fmean(ratios)
    return Gain(-expm1(middle), exp(middle) * expm1(min(half, _MOST)))


def fastest(times: Mapping[int, Sequence[float]]) -> int:
    """Return the index of the fastest candidate that beats the default by more than the noise, else 0.

    Parameters
    ----------
    times
        Index of a candidate -> its times in ms, measured alternately; 0 is the default. If the default has no
        times, the candidate with the smallest median wins.
    """
    better = [
        place for place, taken in times.items() if place and (0 not in times or gain(times[0], taken).sure)
    ]
    return min(better, key=lambda place: median(times[place]), default=0)

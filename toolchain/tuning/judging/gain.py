"""How much faster one of two is, and how sure that is, from times that were taken in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, expm1, inf, log, sqrt
from statistics import fmean, median, stdev

# Student's t for a two-sided interval of 95 %, by degrees of freedom from 1 on; beyond them the last.
# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)
_MOST = 700.0  # of a logarithm; what is uncertain by more is no number


@dataclass(frozen=True)
class Gain:
    """Share of its time that something saves.

    Attributes
    ----------
    share
        Over the rounds: 0.03 is 3 % less time, below 0 is more time.
    uncertainty
        How far below lies the end of the interval that holds the true share with 95 % confidence, as far as
        the rounds are alike.
    """

    share: float
    uncertainty: float

    @property
    def sure(self) -> bool:
        """Whether it is faster by more than the noise."""
        return self.share > self.uncertainty

    def __str__(self) -> str:
        return f"{abs(self.share):.1%} ± {self.uncertainty:.1%} {'faster' if self.share >= 0 else 'slower'}"


def gain(before: Sequence[float], after: Sequence[float]) -> Gain:
    """Return what `after` saves.

    Parameters
    ----------
    before, after
        Milliseconds; those of one place were taken one after the other, so that what slows a machine down
        for a while slows both. The rest of the longer one is ignored.
    """
    # Logarithms, since a round in which one of both was held up counts as much for one as for the other.
    ratios = [log(new / old) for old, new in zip(before, after, strict=False)]
    if len(ratios) < 2:
        return Gain(-expm1(sum(ratios)), inf)
    degrees = len(ratios) - 1
    half = _T[min(degrees, len(_T)) - 1] * stdev(ratios) / sqrt(len(ratios))
    middle = fmean(ratios)
    return Gain(-expm1(middle), exp(middle) * expm1(min(half, _MOST)))


def fastest(times: Mapping[int, Sequence[float]]) -> int:
    """Return the place of the fastest that beats the default by more than the noise; else the default's.

    Parameters
    ----------
    times
        Place -> milliseconds, taken in turn; 0 is the default's place. Without it the least median wins.
    """
    better = [
        place for place, taken in times.items() if place and (0 not in times or gain(times[0], taken).sure)
    ]
    return min(better, key=lambda place: median(times[place]), default=0)

"""A linear model of the known scores: in which direction a space gets better, and how fast.

Trees cannot interpolate or extrapolate: if three of ten tile sizes are measured, they know three. A line
predicts that a tile size of 8 is better than 4 if 4 is better than 2, until a measurement shows otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float32]]"

_PENALTY = 0.03
"""Penalty on slopes, per row: ten rows cannot determine thirty slopes. Results with 0.09 are as good."""


@dataclass(frozen=True)
class Trend:
    """A ridge regression: least squares with a penalty, on standardised features."""

    height: float
    middles: Floats
    slopes: Floats

    def guess(self, rows: Floats) -> Floats:
        """Return the predicted scores of points."""
        guessed: Floats = (self.height + (rows - self.middles) @ self.slopes).astype(np.float32)
        return guessed


def trend_of(rows: Floats, scores: Floats, known: Floats) -> Trend:
    """Fit a trend to scores; its slope is 0 in features that are constant.

    Parameters
    ----------
    rows
        Features of points, shape (points, features).
    scores
        Scores of the points, shape (points,).
    known
        Features of all known points, `rows` among them, whose mean and spread standardise the features.
    """
    middles, spreads = known.mean(axis=0), known.std(axis=0)
    spreads[spreads == 0] = 1.0
    units = ((rows - middles) / spreads).astype(np.float64)
    height = float(scores.mean())
    penalty = _PENALTY * len(rows) * np.eye(units.shape[1])
    slopes = np.linalg.solve(units.T @ units + penalty, units.T @ (scores - height))
    return Trend(height, middles, (slopes / spreads).astype(np.float32))

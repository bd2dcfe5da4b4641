"""A straight line through what is known: which way a space gets better, and about how fast.

Trees know the places that they were shown, and nothing between or beyond: of ten tile sizes, three of them
measured, they see three. A line says of the others that what got better from 2 to 4 is better still at 8,
until a measurement says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float32]]"

_PENALTY = 0.03
"""Of slopes, for each row: ten rows do not tell thirty slopes apart. Three times as much is as good."""


@dataclass(frozen=True)
class Trend:
    """Least squares with a penalty (ridge regression), of features in their own units of spread."""

    height: float
    middles: Floats
    slopes: Floats

    def guess(self, rows: Floats) -> Floats:
        """Return the line's scores of points."""
        guessed: Floats = (self.height + (rows - self.middles) @ self.slopes).astype(np.float32)
        return guessed


def trend_of(rows: Floats, scores: Floats, known: Floats) -> Trend:
    """Return the line through scores; level in features that are all the same.

    Parameters
    ----------
    rows
        Features of points: shape (points, features).
    scores
        Shape (points,).
    known
        Features of all points that are known, `rows` among them: what is far, and what near.
    """
    middles, spreads = known.mean(axis=0), known.std(axis=0)
    spreads[spreads == 0] = 1.0
    units = ((rows - middles) / spreads).astype(np.float64)
    height = float(scores.mean())
    penalty = _PENALTY * len(rows) * np.eye(units.shape[1])
    slopes = np.linalg.solve(units.T @ units + penalty, units.T @ (scores - height))
    return Trend(height, middles, (slopes / spreads).astype(np.float32))

"""Simulated annealing: finds points with good predictions in a space that is too large to list.

As in AutoTVM (Chen et al., Learning to Optimize Tensor Programs, 2018, section 3.2): many chains walk through
the space at once, each from a point to a neighbour; they accept a worse point less often as they cool down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp
from random import Random

from toolchain.tasks.space import P, Space

Guess = Callable[[Sequence[P]], Sequence[float]]
"""Predicts a score for each point; larger is better."""


def anneal(space: Space[P], guess: Guess[P], starts: Sequence[P], steps: int, random: Random) -> list[P]:
    """Return all points that the chains visited, the best by `guess` first.

    Parameters
    ----------
    starts
        Points where the chains begin, one chain each.
    steps
        Number of steps of each chain.
    """
    chains = list(dict.fromkeys(starts))
    heights = [float(height) for height in guess(chains)]
    met = dict(zip(chains, heights, strict=True))
    spread = (max(heights) - min(heights) or 1.0) if heights else 1.0
    for step in range(steps):
        warmth = spread * (1 - step / steps)
        moves = [random.choice(space.neighbours(point, random) or [point]) for point in chains]
        new = [point for point in dict.fromkeys(moves) if point not in met]
        met.update(zip(new, map(float, guess(new)) if new else (), strict=True))
        for place, point in enumerate(moves):
            gain = met[point] - heights[place]
            if gain >= 0 or random.random() < exp(gain / warmth):
                chains[place], heights[place] = point, met[point]
    return sorted(met, key=lambda point: -met[point])

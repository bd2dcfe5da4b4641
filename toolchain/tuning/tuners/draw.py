"""Draws random points that were not proposed yet."""

from __future__ import annotations

from random import Random

from toolchain.tasks.tuner import P, Space

_IN_VAIN = 100  # draws without a new point after which a space that cannot be counted counts as exhausted


def drawn(space: Space[P], seen: set[P], count: int, random: Random) -> list[P]:
    """Draw at most `count` points that are not in `seen`, all with the same probability.

    Spaces that cannot be counted are sampled until no new point is found.
    """
    size = space.size
    if size is not None:
        left = [point for point in map(space.point, range(size)) if point not in seen]
        return random.sample(left, min(count, len(left)))
    points: dict[P, None] = {}
    in_vain = 0
    while len(points) < count and in_vain < _IN_VAIN:
        point = space.sample(random)
        if point in seen or point in points:
            in_vain += 1
        else:
            points[point] = None
    return list(points)


def chance(seed: int, workload: str) -> Random:
    """Return a random generator for a task's search, so that equal spaces are searched differently."""
    return Random(f"{seed} {workload}")  # noqa: S311  # no secret hangs on it

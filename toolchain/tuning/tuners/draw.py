"""Points by chance that were not seen."""

from __future__ import annotations

from random import Random

from toolchain.tasks.space import P, Space

_IN_VAIN = 100  # draws, until a space that cannot be counted is taken for exhausted


def drawn(space: Space[P], seen: set[P], count: int, random: Random) -> list[P]:
    """Return at most `count` points that were not seen, each of those that are left with the same chance.

    Spaces that cannot be counted are sampled, until nothing new comes.
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
    """Return a generator for a task's search: tasks of one shape are not to be searched in step."""
    return Random(f"{seed} {workload}")  # noqa: S311  # no secret hangs on it

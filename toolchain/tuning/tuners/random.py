"""Points by chance: what any other tuner has to beat."""

from __future__ import annotations

from random import Random

from toolchain.tasks.space import Point, Space
from toolchain.tasks.task import Task
from toolchain.tuning.tuners.seen import Seen

_DRAWS = 100  # in vain, until a space that cannot be counted is taken for exhausted


class RandomSearch(Seen):
    """Draws points, each of those that are left with the same chance; see `tasks.tuner.Tuner`."""

    def __init__(self, task: Task, space: Space, seed: int) -> None:
        super().__init__()
        self._space = space
        # Seeded by the task too: tasks of one shape are not to be tried in step.
        self._random = Random(f"{seed} {task.workload}")  # noqa: S311  # no secret hangs on it

    def propose(self, count: int) -> list[Point]:
        """Return points that were not measured."""
        size = self._space.size
        points = self._drawn(count) if size is None else self._picked(count, size)
        self.seen.update(points)
        return points

    def _picked(self, count: int, size: int) -> list[Point]:
        left = [point for point in map(self._space.point, range(size)) if point not in self.seen]
        return self._random.sample(left, min(count, len(left)))

    def _drawn(self, count: int) -> list[Point]:
        points: list[Point] = []
        in_vain = 0
        while len(points) < count and in_vain < _DRAWS:
            point = self._space.sample(self._random)
            if point in self.seen or point in points:
                in_vain += 1
            else:
                points.append(point)
        return points

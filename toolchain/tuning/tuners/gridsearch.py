"""Every point, in the space's own order: for spaces that are small, or whose order is a good guess."""

from __future__ import annotations

from itertools import count

from toolchain.errors import UsageError
from toolchain.tasks.space import Point, Space
from toolchain.tasks.task import Task
from toolchain.tuning.tuners.seen import Seen


class GridSearch(Seen):
    """Goes through a space from its first point to its last; see `tasks.tuner.Tuner`.

    Raises
    ------
    UsageError
        The space has no end.
    """

    def __init__(self, task: Task, space: Space, seed: int) -> None:
        super().__init__()
        del seed  # nothing is left to chance
        size = space.size
        if size is None:
            raise UsageError(
                f"--tuner gridsearch: the ways to compute task {task.id} ({task.name}) cannot be counted",
                "leave --tuner out, or use --tuner random",
            )
        self._space, self._size, self._next = space, size, count()

    def propose(self, count: int) -> list[Point]:
        """Return the next points that were not measured."""
        points: list[Point] = []
        for index in self._next:
            if index >= self._size:
                break
            point = self._space.point(index)
            if point not in self.seen:
                points.append(point)
                self.seen.add(point)
            if len(points) == count:
                break
        return points

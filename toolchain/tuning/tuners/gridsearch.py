"""Every point, in the space's own order: for spaces that are small, or whose order is a good guess."""

from __future__ import annotations

from itertools import count

from toolchain.tasks.space import P, Space
from toolchain.tasks.task import Task
from toolchain.tuning.tuners.fitting import counted
from toolchain.tuning.tuners.seen import Seen


class GridSearch(Seen[P]):
    """Goes through a space from its first point to its last; see `tasks.tuner.Tuner`.

    Raises
    ------
    UsageError
        The space has no end.
    """

    def __init__(self, task: Task, space: Space[P], seed: int) -> None:
        super().__init__()
        del seed  # nothing is left to chance
        self._space, self._size, self._next = space, counted("gridsearch", task, space), count()

    def propose(self, count: int) -> list[P]:
        """Return the next points that were not measured."""
        points: list[P] = []
        while len(points) < count and (index := next(self._next)) < self._size:
            point = self._space.point(index)
            if point not in self.seen:
                points.append(point)
                self.seen.add(point)
        return points

"""A tuner that tries all points in the order of the space, for small or well-ordered spaces."""

from __future__ import annotations

from itertools import count

from toolchain.tasks.space import P, Space
from toolchain.tasks.task import Task
from toolchain.tuning.tuners.fitting import counted
from toolchain.tuning.tuners.seen import Seen


class GridSearch(Seen[P]):
    """Proposes all points of a space from the first to the last; see `tasks.tuner.Tuner`.

    Raises
    ------
    UsageError
        The points cannot be counted.
    """

    def __init__(self, task: Task, space: Space[P], seed: int) -> None:
        super().__init__()
        del seed  # the search is deterministic
        self._space, self._size, self._next = space, counted("gridsearch", task, space), count()

    def propose(self, count: int) -> list[P]:
        """Return the next points that are not known yet."""
        points: list[P] = []
        while len(points) < count and (index := next(self._next)) < self._size:
            point = self._space.point(index)
            if point not in self.seen:
                points.append(point)
                self.seen.add(point)
        return points

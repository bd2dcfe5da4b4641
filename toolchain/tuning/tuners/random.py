"""A tuner that draws random points: the baseline of all other tuners."""

from __future__ import annotations

from toolchain.tasks.space import P, Space
from toolchain.tasks.task import Task
from toolchain.tuning.tuners.draw import chance, drawn
from toolchain.tuning.tuners.seen import Seen


class RandomSearch(Seen[P]):
    """Draws the remaining points with equal probability; see `tasks.tuner.Tuner`.

    It is for comparisons and unknown spaces, and learns nothing.
    """

    def __init__(self, task: Task, space: Space[P], seed: int) -> None:
        super().__init__()
        self._space = space
        self._random = chance(seed, task.workload)

    def propose(self, count: int) -> list[P]:
        """Return random points that are not known yet."""
        points = drawn(self._space, self.seen, count, self._random)
        self.seen.update(points)
        return points

"""Points by chance: what any other tuner has to beat."""

from __future__ import annotations

from toolchain.tasks.space import P, Space
from toolchain.tasks.task import Task
from toolchain.tuning.tuners.draw import chance, drawn
from toolchain.tuning.tuners.seen import Seen


class RandomSearch(Seen[P]):
    """Draws points, each of those that are left with the same chance; see `tasks.tuner.Tuner`.

    For comparisons, and for spaces of which nothing is known. It learns nothing.
    """

    def __init__(self, task: Task, space: Space[P], seed: int) -> None:
        super().__init__()
        self._space = space
        self._random = chance(seed, task.workload)

    def propose(self, count: int) -> list[P]:
        """Return points that were not measured."""
        points = drawn(self._space, self.seen, count, self._random)
        self.seen.update(points)
        return points

"""The same for every task, in turn."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tuning.scheduler import Turn
from toolchain.tuning.schedulers.pot import Pot, shares


class RoundRobin:
    """Every task gets the same share, one batch in turn; see `Scheduler`.

    What a task cannot use goes to the others.

    Parameters
    ----------
    sizes
        How many candidates each task has; None: no end of them.
    """

    def __init__(self, trials: int, sizes: Sequence[int | None]) -> None:
        self._pot = Pot(trials, sizes)
        self._count = len(sizes)
        self._first = 0

    def next(self, batch: int) -> Turn | None:
        """Return a turn of the next task that has some of its share left."""
        pot = self._pot
        given = shares(pot.trials, [pot.most(task) for task in range(self._count)])
        for step in range(self._count):
            task = (self._first + step) % self._count
            trials = min(batch, given[task] - pot.taken(task), pot.room(task))
            if trials > 0:
                self._first = task + 1
                return pot.give(task, trials)
        return None

    def report(self, turn: Turn, used: int, best_ms: float) -> None:
        """Count what was used; what it brought does not matter here."""
        del best_ms
        self._pot.take_back(turn, used)

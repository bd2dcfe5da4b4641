"""A scheduler that gives every task the same number of trials."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tuning.schedulers.pot import Pot, shares
from toolchain.tuning.schedulers.scheduler import Prospect, Turn


class RoundRobin:
    """Gives every task the same share, one batch after the other; see `Scheduler`.

    Trials that a task cannot use go to the others.
    """

    def __init__(self, trials: int, prospects: Sequence[Prospect], patience: int | None = None) -> None:
        self._pot = Pot(trials, prospects, patience)
        self._first = 0

    def next(self, batch: int) -> Turn | None:
        """Return a turn of the next task with trials left in its share."""
        pot = self._pot
        given = shares(pot.trials, pot.limits)
        for step in range(len(given)):
            task = (self._first + step) % len(given)
            trials = min(batch, given[task] - pot.taken(task), pot.room(task))
            if trials > 0:
                self._first = task + 1
                return pot.give(task, trials)
        return None

    def report(self, turn: Turn, used: int, best_ms: float) -> None:
        """Count the used trials of a turn."""
        self._pot.take_back(turn, used, best_ms)

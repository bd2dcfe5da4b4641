"""The trials of a run: how many are left, and which tasks may still take some."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tuning.schedulers.scheduler import Prospect, Turn

GAIN = 0.01
"""A task that got faster by less than this part stands still: as much is noise on a quiet board."""


class Pot:
    """Counts trials: used ones, and those of turns that are out.

    Parameters
    ----------
    trials
        Of the whole run.
    patience
        A task gets no more once so many of its trials in a row brought less than `GAIN`; None: it does.
    """

    def __init__(self, trials: int, prospects: Sequence[Prospect], patience: int | None = None) -> None:
        self.trials, self.patience = trials, patience
        self._limits = [prospect.left for prospect in prospects]
        self._marks = [prospect.default_ms for prospect in prospects]  # ms at the last gain
        self._vain = [0] * len(prospects)  # trials since then
        self._used = [0] * len(prospects)
        self._out = [0] * len(prospects)
        self._taken = 0  # of all tasks: each turn asks for what is left once for every task

    @property
    def left(self) -> int:
        """How many trials have not been given out."""
        return self.trials - self._taken

    @property
    def limits(self) -> list[int | None]:
        """How many trials each task can use in the whole run; None: no end of them."""
        return list(self._limits)

    def taken(self, task: int) -> int:
        """Return how many trials a task has used or is using."""
        return self._used[task] + self._out[task]

    def room(self, task: int) -> int:
        """Return how many trials a task can use now."""
        limit = self._limits[task]
        room = self.left if limit is None else min(self.left, max(0, limit - self.taken(task)))
        return room if self.patience is None else min(room, self.patience - self._vain[task])

    def give(self, task: int, trials: int) -> Turn:
        """Reserve trials for a task."""
        self._out[task] += trials
        self._taken += trials
        return Turn(task, trials)

    def take_back(self, turn: Turn, used: int, best_ms: float) -> None:
        """Count what a turn used; a task that used nothing, or stands still, gets no more."""
        task = turn.task
        self._out[task] -= turn.trials
        self._used[task] += used
        self._taken += used - turn.trials
        if best_ms < (1 - GAIN) * self._marks[task]:
            self._marks[task], self._vain[task] = best_ms, 0
        else:
            self._vain[task] += used
        if not used or (self.patience is not None and self._vain[task] >= self.patience):
            self._limits[task] = self.taken(task)


def shares(trials: int, limits: Sequence[int | None]) -> list[int]:
    """Deal trials out evenly, to no task more than its limit; the first get what is left over."""
    given = [0] * len(limits)
    while trials and (open_ := [at for at, limit in enumerate(limits) if limit is None or given[at] < limit]):
        even, rest = divmod(trials, len(open_))
        for turn, at in enumerate(open_):
            limit = limits[at]
            more = even + (turn < rest)
            more = more if limit is None else min(more, limit - given[at])
            given[at] += more
            trials -= more
    return given

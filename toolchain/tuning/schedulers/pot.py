"""Counts the trials of a run: how many are left, and how many each task may still use."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tuning.schedulers.scheduler import Prospect, Turn

GAIN = 0.01
"""Smallest relative gain that counts as progress of a task: less is noise, even on a quiet board."""


class Pot:
    """Counts trials: those used, and those of turns under way.

    Parameters
    ----------
    trials
        Number of trials of the whole run.
    patience
        A task gets no more trials after this many in a row with less than `GAIN`; None: no such limit.
    """

    def __init__(self, trials: int, prospects: Sequence[Prospect], patience: int | None = None) -> None:
        self.trials, self.patience = trials, patience
        self._limits = [prospect.left for prospect in prospects]
        self._marks = [prospect.default_ms for prospect in prospects]  # ms at the last gain
        self._vain = [0] * len(prospects)  # trials since then
        self._used = [0] * len(prospects)
        self._out = [0] * len(prospects)
        self._taken = 0  # sum over all tasks, kept since each turn asks for `left` once for every task

    @property
    def left(self) -> int:
        """Number of trials that were not given out yet."""
        return self.trials - self._taken

    @property
    def limits(self) -> list[int | None]:
        """Largest number of trials that each task can use in the whole run; None: no limit."""
        return list(self._limits)

    def taken(self, task: int) -> int:
        """Return the number of trials that a task has used or is using."""
        return self._used[task] + self._out[task]

    def room(self, task: int) -> int:
        """Return the number of trials that a task may get now."""
        limit = self._limits[task]
        room = self.left if limit is None else min(self.left, max(0, limit - self.taken(task)))
        return room if self.patience is None else min(room, self.patience - self._vain[task])

    def give(self, task: int, trials: int) -> Turn:
        """Reserve trials for a task."""
        self._out[task] += trials
        self._taken += trials
        return Turn(task, trials)

    def take_back(self, turn: Turn, used: int, best_ms: float) -> None:
        """Count the used trials of a turn; a task that used none, or makes no progress, gets no more."""
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
    """Divide trials evenly among tasks, within their limits; the first tasks get the remainder."""
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

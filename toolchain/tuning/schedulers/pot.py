"""The trials of a run: how many are left, and which tasks may still take some."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tuning.scheduler import Turn


class Pot:
    """Counts trials: used ones, and those of turns that are out.

    Parameters
    ----------
    trials
        Of the whole run.
    sizes
        How many candidates each task has; None: no end of them.
    """

    def __init__(self, trials: int, sizes: Sequence[int | None]) -> None:
        self.trials = trials
        self._sizes = list(sizes)
        self._used = [0] * len(sizes)
        self._out = [0] * len(sizes)

    @property
    def left(self) -> int:
        """How many trials have not been given out."""
        return self.trials - sum(self._used) - sum(self._out)

    def taken(self, task: int) -> int:
        """Return how many trials a task has used or is using."""
        return self._used[task] + self._out[task]

    def most(self, task: int) -> int | None:
        """Return how many trials a task can use in the whole run; None: no end of them."""
        return self._sizes[task]

    def room(self, task: int) -> int:
        """Return how many more trials a task can use."""
        size = self._sizes[task]
        return self.left if size is None else min(self.left, max(0, size - self.taken(task)))

    def give(self, task: int, trials: int) -> Turn:
        """Reserve trials for a task."""
        self._out[task] += trials
        return Turn(task, trials)

    def take_back(self, turn: Turn, used: int) -> None:
        """Count what a turn used; a task that used nothing has nothing left to try."""
        self._out[turn.task] -= turn.trials
        self._used[turn.task] += used
        if not used:
            self.close(turn.task)

    def close(self, task: int) -> None:
        """Give a task no more trials than it has."""
        self._sizes[task] = self.taken(task)


def shares(trials: int, sizes: Sequence[int | None]) -> list[int]:
    """Deal trials out evenly, to no task more than it has candidates; the first get what is left over."""
    given = [0] * len(sizes)
    while trials and (open_ := [at for at, size in enumerate(sizes) if size is None or given[at] < size]):
        even, rest = divmod(trials, len(open_))
        for turn, at in enumerate(open_):
            size = sizes[at]
            more = even + (turn < rest)
            more = more if size is None else min(more, size - given[at])
            given[at] += more
            trials -= more
    return given

"""Which task gets the next trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Scheduler(Protocol):
    """Deals trials out to tasks, which have their places as names."""

    def next(self) -> int | None:
        """Return the task whose turn it is; None: no task gets another."""

    def share(self, task: int) -> int:
        """Return how many trials a task may have at most from now on."""

    def report(self, task: int, trials: int) -> None:
        """Take note that a task used so many trials; 0: it has nothing left to try."""


class RoundRobin:
    """Every task gets the same share, one batch in turn; see `Scheduler`.

    Parameters
    ----------
    sizes
        How many candidates each task has; None: no end of them.
    """

    def __init__(self, trials: int, sizes: Sequence[int | None]) -> None:
        self._left = shares(trials, sizes)
        self._turn = 0

    def next(self) -> int | None:
        """Return the next task in turn that has trials left."""
        count = len(self._left)
        for step in range(count):
            task = (self._turn + step) % count
            if self._left[task]:
                self._turn = task + 1
                return task
        return None

    def share(self, task: int) -> int:
        """Return what is left of a task's share."""
        return self._left[task]

    def report(self, task: int, trials: int) -> None:
        """Take trials from a task's share, or all."""
        self._left[task] = max(0, self._left[task] - trials) if trials else 0


def shares(trials: int, sizes: Sequence[int | None]) -> list[int]:
    """Deal trials out evenly, to no task more than it has candidates; the first get what is left over."""
    given = [0] * len(sizes)
    while trials and (open_ := [at for at, size in enumerate(sizes) if size is None or given[at] < size]):
        each, rest = divmod(trials, len(open_))
        for turn, at in enumerate(open_):
            size = sizes[at]
            more = each + (turn < rest)
            more = more if size is None else min(more, size - given[at])
            given[at] += more
            trials -= more
    return given

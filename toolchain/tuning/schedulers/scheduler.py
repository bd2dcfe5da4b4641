"""Which task gets the next trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Prospect:
    """What is known of a task before anything is searched.

    Attributes
    ----------
    weight
        How often the network computes it.
    default_ms
        What it takes without a search.
    left
        How many candidates there are to try; None: no end of them.
    """

    weight: int
    default_ms: float
    left: int | None


@dataclass(frozen=True)
class Turn:
    """A task and how many trials it may use now: they are reserved until the turn is reported.

    Attributes
    ----------
    task
        Its place among the tasks of the run.
    """

    task: int
    trials: int


class Scheduler(Protocol):
    """Gives the trials of a run out to its tasks. Several turns may be out at once, also of one task."""

    def next(self, batch: int) -> Turn | None:
        """Return whose turn it is; None: there is nothing to give out, unless a turn that is out comes back.

        Parameters
        ----------
        batch
            How many trials a turn has at most.
        """

    def report(self, turn: Turn, used: int, best_ms: float) -> None:
        """Take a turn back; what it did not use may be given out again.

        Parameters
        ----------
        used
            How many candidates were measured; 0: the task has nothing left to try.
        best_ms
            Of the task by now.
        """

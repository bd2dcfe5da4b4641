"""The interface of a scheduler, which chooses the task that gets the next trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Prospect:
    """Facts about a task that are known before the search.

    Attributes
    ----------
    weight
        How many times the network calls it.
    default_ms
        Time of its default, in ms.
    left
        Number of candidates left to try; None: too many to count.
    """

    weight: int
    default_ms: float
    left: int | None


@dataclass(frozen=True)
class Turn:
    """A number of trials for a task, which stay reserved until the turn is reported.

    Attributes
    ----------
    task
        Index of the task in the run.
    """

    task: int
    trials: int


class Scheduler(Protocol):
    """Divides the trials of a run among its tasks. Several turns may be under way, also of the same task."""

    def next(self, batch: int) -> Turn | None:
        """Return the next turn; None if nothing is left, unless a turn under way returns unused trials.

        Parameters
        ----------
        batch
            Largest number of trials in a turn.
        """

    def report(self, turn: Turn, used: int, best_ms: float) -> None:
        """End a turn; its unused trials may be given out again.

        Parameters
        ----------
        used
            Number of candidates that were measured; 0: the task has nothing left to try.
        best_ms
            Best time of the task so far.
        """

"""A scheduler whose turns are told to whoever shows the progress."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tasks.task import Task
from toolchain.tuning.events import Listener, TurnBegan, TurnEnded
from toolchain.tuning.schedulers.scheduler import Scheduler, Turn


class Announced:
    """Passes turns on from another scheduler; see `Scheduler`."""

    def __init__(self, scheduler: Scheduler, tasks: Sequence[Task], listener: Listener) -> None:
        self._scheduler, self._tasks, self._listener = scheduler, tasks, listener

    def next(self, batch: int) -> Turn | None:
        """Return whose turn it is."""
        turn = self._scheduler.next(batch)
        if turn is not None:
            self._listener(TurnBegan(self._tasks[turn.task], turn.trials))
        return turn

    def report(self, turn: Turn, used: int, best_ms: float) -> None:
        """Take a turn back."""
        self._scheduler.report(turn, used, best_ms)
        self._listener(TurnEnded(self._tasks[turn.task], used, best_ms))

"""A scheduler that reports its turns to the run's listener."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tasks.task import Task
from toolchain.tuning.events import Listener, TurnBegan, TurnEnded
from toolchain.tuning.schedulers.scheduler import Scheduler, Turn


class AnnouncingScheduler:
    """Wraps a scheduler and reports the beginning and end of its turns as events; see `Scheduler`."""

    def __init__(self, scheduler: Scheduler, tasks: Sequence[Task], listener: Listener) -> None:
        self._scheduler, self._tasks, self._listener = scheduler, tasks, listener

    def next(self, batch: int) -> Turn | None:
        """Return the next turn, and report that it begins."""
        turn = self._scheduler.next(batch)
        if turn is not None:
            self._listener(TurnBegan(self._tasks[turn.task], turn.trials))
        return turn

    def report(self, turn: Turn, used: int, best_ms: float) -> None:
        """Report the end of a turn to the scheduler and the listener."""
        self._scheduler.report(turn, used, best_ms)
        self._listener(TurnEnded(self._tasks[turn.task], used, best_ms))

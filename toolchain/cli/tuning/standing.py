"""How far a tuning run is, put together from what it tells."""

from __future__ import annotations

import time
from dataclasses import dataclass

from toolchain.tasks.task import Task
from toolchain.tuning.events import Began, Event, LeftOut, Notice, StepBegan, Trial, TurnBegan, TurnEnded


@dataclass
class Row:
    """How far one task is.

    Attributes
    ----------
    default_ms, best_ms
        None: its default has not been measured yet.
    out
        Turns that it has now.
    """

    task: Task
    default_ms: float | None = None
    best_ms: float | None = None
    trials: int = 0
    failed: int = 0
    out: int = 0

    @property
    def gflops(self) -> float | None:
        """1e9 floating-point operations per second of the best."""
        return self.task.flops / self.best_ms / 1e6 if self.best_ms else None


class Standing:
    """How far a run is.

    Attributes
    ----------
    rows
        One for each task, the heaviest first.
    limit
        Trials at most.
    step
        What it is at.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.limit = 0
        self.step = ""
        self._begun = time.monotonic()

    def take(self, event: Event) -> None:
        """Take note of what happened."""
        match event:
            case Began():
                self.rows = [Row(task) for task in event.tasks]
                self.limit = event.trials
            case Trial(stage="default"):
                row = self.row(event.task)
                row.default_ms, row.best_ms = event.ms, event.best_ms
            case Trial(stage="recorded"):
                self.row(event.task).best_ms = event.best_ms
            case Trial():
                row = self.row(event.task)
                row.best_ms = event.best_ms
                row.trials += 1
                row.failed += event.failure is not None
            case TurnBegan():
                self.row(event.task).out += 1
            case TurnEnded():
                self.row(event.task).out -= 1
            case LeftOut():
                self.rows = [row for row in self.rows if row.task not in event.tasks]
            case StepBegan():
                self.step = event.text
            case Notice():
                pass

    def row(self, task: Task) -> Row:
        """Return a task's row."""
        return next(row for row in self.rows if row.task.workload == task.workload)

    @property
    def trials(self) -> int:
        """How many candidates were measured."""
        return sum(row.trials for row in self.rows)

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._begun

    @property
    def untuned_ms(self) -> float | None:
        """Of all tasks together, each times its weight, by default; None while one has not been measured."""
        return _weighted([(row, row.default_ms) for row in self.rows])

    @property
    def estimated_ms(self) -> float | None:
        """Of all tasks together, with the best of each."""
        return _weighted([(row, row.best_ms) for row in self.rows])

    @property
    def at_work(self) -> list[str]:
        """The ids of the tasks of which candidates are being built or measured."""
        return [row.task.id for row in self.rows if row.out]


def _weighted(rows: list[tuple[Row, float | None]]) -> float | None:
    times = [row.task.weight * ms for row, ms in rows if ms is not None]
    return sum(times) if times and len(times) == len(rows) else None

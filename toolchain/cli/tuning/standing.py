"""The progress of a tuning run, computed from its events."""

from __future__ import annotations

import time
from dataclasses import dataclass

from toolchain.tasks.task import Task
from toolchain.tuning.events import (
    Began,
    Event,
    LeftOut,
    Notice,
    RunVerdict,
    StepBegan,
    Trial,
    TurnBegan,
    TurnEnded,
)


@dataclass
class Row:
    """The progress of one task.

    Attributes
    ----------
    default_ms, best_ms
        Milliseconds of the default and of the best candidate; None until the default has been measured.
    out
        Number of turns in progress.
    """

    task: Task
    default_ms: float | None = None
    best_ms: float | None = None
    trials: int = 0
    failed: int = 0
    out: int = 0

    @property
    def gflops(self) -> float | None:
        """Speed of the best candidate in 1e9 floating-point operations per second."""
        return self.task.flops / self.best_ms / 1e6 if self.best_ms else None


class Standing:
    """The progress of a run.

    Attributes
    ----------
    rows
        One row for each task, the heaviest first.
    limit
        Largest number of trials.
    step
        Text of the current step.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.limit = 0
        self.step = ""
        self._begun = time.monotonic()

    def take(self, event: Event) -> None:
        """Update the progress with an event."""
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
            case Notice() | RunVerdict():
                pass

    def row(self, task: Task) -> Row:
        """Return the row of a task."""
        return next(row for row in self.rows if row.task.workload == task.workload)

    @property
    def trials(self) -> int:
        """Number of candidates measured."""
        return sum(row.trials for row in self.rows)

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._begun

    @property
    def untuned_ms(self) -> float | None:
        """Sum over tasks of weight times default time, in ms; None until all defaults are measured."""
        return _weighted([(row, row.default_ms) for row in self.rows])

    @property
    def estimated_ms(self) -> float | None:
        """Sum over tasks of weight times the best time, in ms; None until all defaults are measured."""
        return _weighted([(row, row.best_ms) for row in self.rows])

    @property
    def at_work(self) -> list[str]:
        """Ids of the tasks whose candidates are being built or measured."""
        return [row.task.id for row in self.rows if row.out]


def _weighted(rows: list[tuple[Row, float | None]]) -> float | None:
    times = [row.task.weight * ms for row, ms in rows if ms is not None]
    return sum(times) if times and len(times) == len(rows) else None

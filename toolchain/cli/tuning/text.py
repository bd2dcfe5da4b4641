"""The numbers of a tuning run as text."""

from __future__ import annotations

import time
from dataclasses import dataclass

from toolchain.quantities import counted, shown_gflops, shown_ms
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

# The progress of a tuning run, computed from its events.


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


HEADERS = ("ID", "NAME", "BEST", "SPEED", "TRIALS")
"""Headings of `cells`."""


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a task's row."""
    failed = f" ({row.failed} failed)" if row.failed else ""
    return (
        row.task.id,
        row.task.name,
        shown_ms(row.best_ms),
        shown_gflops(row.gflops),
        f"{row.trials}{failed}",
    )


def total(standing: Standing) -> str:
    """Return the line below the table."""
    parts = [f"These tasks: {shown_ms(standing.estimated_ms)} per inference"]
    if standing.untuned_ms is not None:
        parts[0] += f" ({shown_ms(standing.untuned_ms)} without tuning)"
    parts.append(f"Trials: {standing.trials}/{standing.limit}")
    parts.append(f"{standing.seconds:.0f} s")
    parts.append(f"At work on: {', '.join(standing.at_work) or '-'}")
    return "  ".join(parts)


def batch(standing: Standing, row: Row) -> str:
    """Return a line about a measured batch."""
    trials = counted(row.trials, "trial")
    failed = f", {row.failed} failed" if row.failed else ""
    return (
        f"{_count(standing)}  {row.task.id}  best {shown_ms(row.best_ms):>8} a call"
        f"  {shown_gflops(row.gflops):>13}  {trials}{failed}"
        f"  these tasks: {shown_ms(standing.estimated_ms)} per inference"
        f"  {standing.seconds:.0f} s  {row.task.name}"
    )


def trial(standing: Standing, event: Trial) -> str:
    """Return a line about one candidate."""
    place = _count(standing) if event.stage == "search" else event.stage.rjust(9)
    board = f"  on {event.board}" if event.board else ""
    return f"{place}  {event.task.id}  {outcome(event)}{board}  {event.task.name}"


def outcome(event: Trial) -> str:
    """Return the result of one candidate as text."""
    if event.ms is None:
        return f"failed, {event.failure}: {event.message}"
    took = f"{shown_ms(event.ms):>8} a call"
    return took if event.stage == "default" else f"{took}, best so far {shown_ms(event.best_ms)}"


def _count(standing: Standing) -> str:
    return f"{standing.trials}/{standing.limit}".rjust(9)

"""Writes the events of a tuning run to the command's event log."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from toolchain.events.lines import Line
    from toolchain.events.log import EventLog
    from toolchain.tuning.events import Listener


def tuning_logger(log: EventLog) -> Listener:
    """Return a listener that writes each event to the log."""
    number = 0

    def listen(event: Event) -> None:
        nonlocal number
        number += isinstance(event, Trial) and event.stage == "search"
        with suppress(ValueError):  # a line that no reader would accept
            log.write(_line(event, number))

    return listen


def _line(event: Event, number: int) -> Line:
    from toolchain.events import lines

    match event:
        case Began():
            tasks = tuple(
                lines.ListedTask(id=task.id, name=task.name, weight=task.weight, flops=task.flops)
                for task in event.tasks[: lines.MOST_TASKS]
            )
            return lines.TasksLine(tasks=tasks, trials=event.trials)
        case Trial():
            return lines.TrialLine(
                task=event.task.id,
                stage=event.stage,
                number=number,
                ms=_finite(event.ms),
                best_ms=_finite(event.best_ms),
                failure=event.failure,
                board=event.board,
                temperature_c=event.temperature_c,
            )
        case TurnBegan() | TurnEnded():
            return lines.TurnLine(task=event.task.id, begins=isinstance(event, TurnBegan))
        case LeftOut():
            return lines.LeftOutLine(tasks=tuple(task.id for task in event.tasks[: lines.MOST_TASKS]))
        case RunVerdict():
            return lines.VerdictLine(
                text=event.text,
                in_network=event.in_network,
                before_ms=event.before_ms,
                after_ms=event.after_ms,
            )
        case StepBegan():
            return lines.StepLine(text=event.text)
        case Notice():
            return lines.NoticeLine(text=event.text)


def _finite(ms: float | None) -> float | None:
    return ms if ms is not None and math.isfinite(ms) else None

"""Progress of a tuning run on stderr: a changing table on a terminal, lines elsewhere."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from toolchain.cli.output import is_verbose, note
from toolchain.cli.progress import thinned_out
from toolchain.cli.tuning import text
from toolchain.cli.tuning.text import Standing
from toolchain.errors import ToolchainError
from toolchain.quantities import counted
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


# Writes the events of a tuning run to the command's event log.


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


@contextmanager
def tuning_progress(log: EventLog | None = None) -> Iterator[Listener]:
    """Yield a listener that shows a run; after an interrupt or an error it prints the results so far.

    Parameters
    ----------
    log
        Gets the same events.
    """
    standing = Standing()
    record = tuning_logger(log) if log else lambda _event: None
    try:
        if sys.stderr.isatty():
            from toolchain.cli.tuning.live import live_table

            with live_table(standing):
                yield _listener(standing, record, lines=False)
        else:
            yield _listener(standing, record, lines=True)
    except (KeyboardInterrupt, ToolchainError):
        _tell_so_far(standing)
        raise


def _listener(standing: Standing, record: Listener, *, lines: bool) -> Listener:
    """Return a listener that updates `standing` and prints events that the table does not show.

    Parameters
    ----------
    record
        Gets each event first.
    lines
        Print a line for every batch, because there is no table.
    """
    every = is_verbose()
    known: set[str] = set()  # kinds of failures that were printed
    step = thinned_out(note)

    def listen(event: Event) -> None:
        record(event)
        standing.take(event)
        match event:
            case Notice():
                note(event.text)
            case StepBegan() if lines:
                step(event.text)
            case Trial() if every or (lines and event.stage != "search"):
                note(text.trial(standing, event))
            case Trial(failure=str(failure)) if failure not in known:
                known.add(failure)
                note(f"{event.task.id} {text.outcome(event)}")
            case TurnEnded() if lines and event.used:
                note(text.batch(standing, standing.row(event.task)))

    return listen


def _tell_so_far(standing: Standing) -> None:
    if all(row.best_ms is None for row in standing.rows):
        return
    for row in standing.rows:
        identity, name, ms, speed, _ = text.cells(row)
        trials = counted(row.trials, "trial") + (f" ({row.failed} failed)" if row.failed else "")
        note(f"  {identity}  {ms:>8}  {speed:>13}  {trials}  {name}")
    note(text.total(standing))
    note("all trials are stored: the same command continues from here; `toolchain build` applies the best")

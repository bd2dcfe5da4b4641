"""Progress of a tuning run on stderr: a changing table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolchain.cli.output import is_verbose, note
from toolchain.cli.progress import thinned_out
from toolchain.cli.tuning import text
from toolchain.cli.tuning.logged import tuning_logger
from toolchain.cli.tuning.standing import Standing
from toolchain.errors import ToolchainError
from toolchain.quantities import counted
from toolchain.tuning.events import Event, Notice, StepBegan, Trial, TurnEnded

if TYPE_CHECKING:
    from toolchain.events.log import EventLog
    from toolchain.tuning.events import Listener


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

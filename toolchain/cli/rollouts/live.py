"""Draws the boards of a rollout with rich, and updates them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from toolchain.cli import terminal
from toolchain.cli.output import note
from toolchain.cli.rollouts.logged import rollout_logger
from toolchain.cli.rollouts.standing import BoardRow, RolloutStanding
from toolchain.foreign import printable
from toolchain.quantities import counted
from toolchain.rollouts.events import AnyEvent
from toolchain.rollouts.outcome import WORKS

if TYPE_CHECKING:
    from toolchain.events.log import EventLog

_AROUND = 6  # terminal lines that are not rows


@contextmanager
def show_rollout(standing: RolloutStanding, log: EventLog) -> Iterator[Callable[[AnyEvent], None]]:
    """Yield a listener for events: it draws a table on a terminal, and prints lines elsewhere.

    Parameters
    ----------
    log
        Gets the same events.
    """
    record = rollout_logger(log)

    def tell(event: AnyEvent) -> None:
        record(event)
        if line := standing.take(event):
            note(line)

    if not sys.stderr.isatty():
        yield tell
        return
    with terminal.live_view(lambda height: draw(standing, height)):
        yield tell


def draw(standing: RolloutStanding, height: int) -> Group:
    """Return the table for a terminal of `height` lines; boards at work come first, then failures."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("BOARD", "PHASE", "STATE", "SENT", "ERROR"):
        table.add_column(
            header, justify="right" if header == "SENT" else "left", no_wrap=True, overflow="ellipsis"
        )
    rows = sorted(standing.rows.values(), key=_urgency)[: max(1, height - _AROUND)]
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in _cells(row)), style="bold" if row.at_work else "")
    lines = [standing.line, f"{standing.counts()}; {standing.seconds:.0f} s"]
    if hidden := len(standing.rows) - len(rows):
        lines.insert(0, f"… {counted(hidden, 'more board')}")
    return Group(table, *(Text(printable(line)) for line in lines))


def _cells(row: BoardRow) -> tuple[str, ...]:
    outcome = row.outcome
    sent = outcome.bytes_sent if outcome else row.sent
    return (
        row.name,
        str(row.phase),
        outcome.state if outcome else row.step,
        f"{sent / 1e6:.1f} MB",
        (outcome.error or "") if outcome else "",
    )


def _urgency(row: BoardRow) -> int:
    if row.at_work:
        return 0
    if row.outcome is None:
        return 2
    return 3 if row.outcome.state in WORKS else 1

"""Draws the table of a run's tasks with rich, and updates it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Group
from rich.table import Table
from rich.text import Text

from toolchain.cli import terminal
from toolchain.cli.tuning import text
from toolchain.cli.tuning.text import Row, Standing
from toolchain.foreign import printable
from toolchain.quantities import counted

_AROUND = 6  # terminal lines that are not rows: header, totals, the shell's prompt


@contextmanager
def live_table(standing: Standing) -> Iterator[None]:
    """Draw the progress of a run until the block ends."""
    with terminal.live_view(lambda height: draw(standing, height)):
        yield


def draw(standing: Standing, height: int) -> Group:
    """Return the table for a terminal of `height` lines; if it is too small, tasks at work come first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in text.HEADERS:
        numeric = header in ("BEST", "SPEED", "TRIALS")
        table.add_column(header, justify="right" if numeric else "left", no_wrap=True, overflow="ellipsis")
    room = max(1, height - _AROUND)
    shown = sorted(sorted(standing.rows, key=lambda row: not row.out)[:room], key=standing.rows.index)
    for row in shown:
        table.add_row(*(Text(printable(cell)) for cell in text.cells(row)), style=_style(row))
    lines = [text.total(standing), standing.step]
    if hidden := len(standing.rows) - len(shown):
        lines.insert(0, f"… {counted(hidden, 'more task')}")
    below = [Text(printable(line)) for line in lines]
    return Group(table, *below) if standing.rows else Group(below[-1])


def _style(row: Row) -> str:
    return "bold" if row.out else ""

"""Shows a rollout while it is at work: a table on a terminal, lines elsewhere; and its end by Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from toolchain.cli import terminal
from toolchain.cli.output import note
from toolchain.cli.rollouts.standing import RolloutStanding, is_at_work
from toolchain.events.rollouts import BoardDone, BoardMoved, CarrierEvent
from toolchain.foreign import printable
from toolchain.quantities import counted

if TYPE_CHECKING:
    from toolchain.events.log import EventLog

_AROUND = 6  # terminal lines that are not rows


@contextmanager
def show_rollout(standing: RolloutStanding, log: EventLog) -> Iterator[Callable[[CarrierEvent], None]]:
    """Yield a listener for events: it draws a table on a terminal, and prints lines elsewhere.

    Parameters
    ----------
    log
        Gets the same events.
    """

    def show(event: CarrierEvent) -> None:
        log.write_rollout(event)
        if line := standing.take(event):
            note(line)

    if not sys.stderr.isatty():
        yield show
        return
    with terminal.live_view(lambda height: draw(standing, height)):
        yield show


def draw(standing: RolloutStanding, height: int) -> Group:
    """Return the table for a terminal of `height` lines; boards at work come first, then failures."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("BOARD", "PHASE", "STATE", "SENT", "ERROR"):
        table.add_column(
            header, justify="right" if header == "SENT" else "left", no_wrap=True, overflow="ellipsis"
        )
    rows = sorted(standing.boards.values(), key=_urgency)[: max(1, height - _AROUND)]
    for last in rows:
        cells = _cells(last, standing.phase_of[last.board])
        table.add_row(*(Text(printable(cell)) for cell in cells), style="bold" if is_at_work(last) else "")
    lines = [standing.line, f"{standing.counts()}; {standing.seconds:.0f} s"]
    if hidden := len(standing.boards) - len(rows):
        lines.insert(0, f"… {counted(hidden, 'more board')}")
    return Group(table, *(Text(printable(line)) for line in lines))


def _cells(last: BoardMoved | BoardDone, phase: int) -> tuple[str, ...]:
    if isinstance(last, BoardDone):
        outcome = last.outcome
        state, sent, error = str(outcome.state), outcome.bytes_sent, outcome.error or ""
    else:
        state, sent, error = last.step, last.sent, ""
    return last.board, str(phase), state, f"{sent / 1e6:.1f} MB", error


def _urgency(last: BoardMoved | BoardDone) -> int:
    if is_at_work(last):
        return 0
    if isinstance(last, BoardMoved):
        return 2
    return 3 if last.outcome.works else 1


# Ctrl-C during a rollout: the first one stops it gently, the second one at once.

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Signals:
    """Signals that end a program.

    Attributes
    ----------
    number
        The number of the first one that came; None: none did.
    stop
        Set by it.
    """

    number: int | None = None
    stop: threading.Event = field(default_factory=threading.Event)


@contextmanager
def stop_on_signals(tell: Callable[[str], None]) -> Iterator[Signals]:
    """Set `stop` at the first signal that ends a program; the second one has its usual effect.

    Signals that are ignored, as `nohup` does, stay ignored.
    """
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    kept = {number: signal.getsignal(number) for number in _SIGNALS}
    ours = {number: handler for number, handler in kept.items() if callable(handler)}

    def restore() -> None:
        for number, handler in ours.items():
            signal.signal(number, handler)

    def ask(number: int, _frame: FrameType | None) -> None:
        restore()
        signals.number = number
        signals.stop.set()
        tell("stopping: boards that receive are left to be resumed, boards that test finish; again: at once")

    for number in ours:
        signal.signal(number, ask)
    try:
        yield signals
    finally:
        restore()

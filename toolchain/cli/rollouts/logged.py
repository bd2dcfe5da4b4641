"""Writes the events of a rollout to the command's event log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from toolchain.rollouts.events import (
    AnyEvent,
    BoardDone,
    BoardMoved,
    GateJudged,
    PhaseStarted,
    RolloutBegan,
)
from toolchain.rollouts.outcome import WORKS, Outcome

if TYPE_CHECKING:
    from toolchain.events.lines import BoardLine, Line
    from toolchain.events.log import EventLog


def rollout_logger(log: EventLog) -> Callable[[AnyEvent], None]:
    """Return a listener that writes each event to the log."""

    def listen(event: AnyEvent) -> None:
        with suppress(ValueError):  # a line that no reader would accept
            if (line := _line(event)) is not None:
                log.write(line)

    return listen


def outcome_line(name: str, outcome: Outcome, *, works: bool) -> BoardLine:
    """Return the line about a board's outcome; `works`: it runs what it should."""
    from toolchain.events.lines import BoardLine

    return BoardLine(
        board=name,
        state=outcome.state,
        done=True,
        works=works,
        sent=outcome.bytes_sent,
        error=outcome.error,
    )


def _line(event: AnyEvent) -> Line | None:
    from toolchain.events import lines

    match event:
        case RolloutBegan():
            return lines.RolloutLine(
                id=event.id, app=event.app, version=event.version, phases=event.phases[: lines.MOST_BOARDS]
            )
        case PhaseStarted():
            return lines.PhaseLine(phase=event.phase)
        case BoardMoved():
            return lines.BoardLine(board=event.board, state=event.step, done=False, sent=event.sent)
        case BoardDone():
            return outcome_line(event.board, event.outcome, works=event.outcome.state in WORKS)
        case GateJudged():
            return lines.GateLine(phase=event.phase, passed=event.passed, reason=event.reason)
        case _:  # resumed; or ended, which the log's last line says
            return None

"""The progress of a rollout, computed from its events."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from toolchain.quantities import counted
from toolchain.rollouts.events import (
    AnyEvent,
    BoardCycled,
    BoardDone,
    BoardMoved,
    GateJudged,
    PhaseStarted,
    RolloutBegan,
    RolloutEnded,
)
from toolchain.rollouts.outcome import Outcome


@dataclass
class BoardRow:
    """The progress of one board."""

    name: str
    phase: int
    step: str = "waits"
    sent: int = 0
    outcome: Outcome | None = None

    @property
    def at_work(self) -> bool:
        """Whether a try has begun and the board has not ended."""
        return self.outcome is None and self.step != "waits"


class RolloutStanding:
    """The progress of all boards, in the order of the phases."""

    def __init__(self) -> None:
        self.rows: dict[str, BoardRow] = {}
        self.phases = 0
        self.phase = 0
        self.line = ""
        self._began = time.monotonic()

    def take(self, event: AnyEvent) -> str | None:
        """Update the progress; return a line for people who see no table, None if nothing is worth one."""
        match event:
            case RolloutBegan():
                self.phases = len(event.phases)
                for number, names in enumerate(event.phases, 1):
                    self.rows.update({name: BoardRow(name, number) for name in names})
                boards = counted(len(self.rows), "board")
                return f"{event.app} {event.version} to {boards}; rollout {event.id}"
            case PhaseStarted():
                self.phase = event.phase
                count = sum(row.phase == event.phase for row in self.rows.values())
                self.line = f"phase {event.phase} of {self.phases}: {counted(count, 'board')}"
                return self.line
            case BoardMoved():
                row = self.rows[event.board]
                row.step, row.sent = event.step, event.sent
                return None
            case BoardCycled():
                self.line = event.text
                return event.text
            case BoardDone():
                self.rows[event.board].outcome = event.outcome
                return board_line(event.board, event.outcome)
            case GateJudged():
                self.line = f"gate after phase {event.phase}: {event.reason}"
                return self.line
            case RolloutEnded():
                self.line = "complete" if event.complete else f"ended: {event.reason}"
        return None

    @property
    def seconds(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self._began

    def counts(self) -> str:
        """Return the number of boards in each state, as text."""
        states = Counter(
            row.outcome.state if row.outcome else ("at work" if row.at_work else "waiting")
            for row in self.rows.values()
        )
        return ", ".join(f"{count} {state}" for state, count in states.most_common())


def board_line(name: str, outcome: Outcome) -> str:
    """Return the end of a board as one line."""
    said = f"{name}: {outcome.state}"
    if outcome.version:
        said += f" {outcome.version}"
    if outcome.test:
        said += f", {outcome.test.latency_us / 1e3:.4g} ms"
    if outcome.power_cycles:
        said += f", power-cycled {outcome.power_cycles}x"
    said += f" ({outcome.seconds:.1f} s, {counted(outcome.bytes_sent, 'byte')} sent)"
    return f"{said}: {outcome.error}" if outcome.error else said

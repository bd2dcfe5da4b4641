"""How far a rollout has come, by its events."""

from __future__ import annotations

import time
from collections import Counter

from toolchain.events.rollouts import (
    BoardCycled,
    BoardDone,
    BoardMoved,
    BoardOutcome,
    CarrierEvent,
    GateJudged,
    PhaseStarted,
    RolloutBegan,
    RolloutEnded,
)
from toolchain.quantities import counted

WAITS = "waits"
"""The step of a board whose part has not begun."""


class RolloutStanding:
    """The last event of each board, in the order of the phases, and the end.

    Attributes
    ----------
    boards
        Boards that have not begun are at the step `WAITS`.
    line
        What happened last to the rollout as a whole.
    complete, reason
        Whether the rollout came to its end, and why not.
    """

    began: RolloutBegan

    def __init__(self) -> None:
        self.boards: dict[str, BoardMoved | BoardDone] = {}
        self.phase_of: dict[str, int] = {}
        self.line = ""
        self.complete, self.reason = False, ""
        self._started = time.monotonic()

    def take(self, event: CarrierEvent) -> str | None:
        """Update the progress; return a line for people who see no table, None if nothing is worth one."""
        match event:
            case RolloutBegan():
                self.began = event
                self.phase_of = {
                    name: number for number, names in enumerate(event.phases, 1) for name in names
                }
                self.boards = {name: BoardMoved(board=name, step=WAITS, sent=0) for name in self.phase_of}
                return (
                    f"{event.app} {event.version} to {counted(len(self.boards), 'board')}; rollout {event.id}"
                )
            case PhaseStarted():
                count = len(self.began.phases[event.phase - 1])
                self.line = f"phase {event.phase} of {len(self.began.phases)}: {counted(count, 'board')}"
                return self.line
            case BoardMoved():
                self.boards[event.board] = event
            case BoardCycled():
                self.line = event.text
                return event.text
            case BoardDone():
                self.boards[event.board] = event
                return board_line(event)
            case GateJudged():
                self.line = f"gate after phase {event.phase}: {event.reason}"
                return self.line
            case RolloutEnded():
                self.complete, self.reason = event.complete, event.reason
                self.line = "complete" if event.complete else f"ended: {event.reason}"
        return None

    @property
    def seconds(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self._started

    @property
    def all_work(self) -> bool:
        """Whether the rollout came to its end and every board of the phases runs the release."""
        return self.complete and all(end.works for end in self.ends())

    def ends(self) -> list[BoardDone]:
        """Return the end of each board's part; boards that no phase reached are `skipped`."""
        skipped = BoardOutcome(state="skipped", error="the rollout ended before its phase")
        return [
            last
            if isinstance(last, BoardDone)
            else BoardDone(board=name, phase=self.phase_of[name], outcome=skipped)
            for name, last in self.boards.items()
        ]

    def counts(self) -> str:
        """Return the number of boards in each state, as text."""
        states = Counter(
            last.outcome.state
            if isinstance(last, BoardDone)
            else ("at work" if is_at_work(last) else "waiting")
            for last in self.boards.values()
        )
        return ", ".join(f"{count} {state}" for state, count in states.most_common())


def is_at_work(last: BoardMoved | BoardDone) -> bool:
    """Whether a try has begun and the board has not ended, by its last event."""
    return isinstance(last, BoardMoved) and last.step != WAITS


def board_line(end: BoardDone) -> str:
    """Return the end of a board as one line."""
    outcome = end.outcome
    line = f"{end.board}: {outcome.state}"
    if outcome.version:
        line += f" {outcome.version}"
    if outcome.test:
        line += f", {outcome.test.latency_us / 1e3:.4g} ms"
    if outcome.power_cycles:
        line += f", power-cycled {outcome.power_cycles}x"
    line += f" ({outcome.seconds:.1f} s, {counted(outcome.bytes_sent, 'byte')} sent)"
    return f"{line}: {outcome.error}" if outcome.error else line

"""Tries on boards in threads: how an error becomes an outcome, or another try."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from toolchain.boards.board import Board
from toolchain.boards.power.cycles import PowerCycles
from toolchain.boards.transport import DeadlineError, LostError
from toolchain.errors import ToolchainError
from toolchain.rollouts.attempt import Attempt, Delivery, Verdict, failure
from toolchain.rollouts.events import BoardCycled
from toolchain.rollouts.outcome import BoardState, Outcome, StoppedError, Told

_FIRST_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 30.0


@dataclass
class Job:
    """One board of a phase, over all its tries.

    Attributes
    ----------
    window_s
        Seconds from the first try in which others may begin.
    not_before
        When the next try may begin, by the monotonic clock.
    cycles
        Power-cycles the board if it is silent; shared by all boards of the rollout.
    cycled
        Called with each such event.
    """

    board: Board
    delivery: Delivery
    window_s: float
    stop: Event
    moved: Callable[[str, str, int], None]
    not_before: float = 0.0
    cycles: PowerCycles = field(default_factory=PowerCycles)
    cycled: Callable[[BoardCycled], None] = lambda _: None
    _began: float = 0.0
    _silent_since: float | None = None
    _not_cycled: str = ""
    _tries: int = 0
    _sent: int = 0
    _step: str = ""
    _attempt: Attempt = field(init=False)

    def __post_init__(self) -> None:
        self._attempt = Attempt(self.board, self.delivery, Told(self._at, self._count, self.stop))

    def run(self) -> Outcome | None:
        """Try once; return the outcome, None if another try shall follow."""
        now = time.monotonic()
        self._began = self._began or now
        self._tries += 1
        silent = False
        try:
            verdict = self._attempt.run()
        except StoppedError as error:
            return self._outcome(Verdict("interrupted", None, error.message))
        except (LostError, DeadlineError) as error:
            verdict = Verdict(self._away, None, error.message, error.hint, again=True)
            silent = isinstance(error, LostError)
        except ToolchainError as error:
            verdict = failure(error)
        finally:
            self.board.transport.close()
        if not silent:
            self._silent_since = None
        elif self._revived(now):
            self.not_before = time.monotonic()
            return None
        pause = min(_FIRST_PAUSE_S * 2 ** min(self._tries - 1, 10), _LONGEST_PAUSE_S)
        self.not_before = time.monotonic() + pause
        in_window = self.not_before - self._began <= self.window_s
        if verdict.again and in_window and not self.stop.is_set():
            self._at("waits to try again")
            return None
        return self._outcome(verdict)

    def give_up(self) -> Outcome:
        """Return the outcome of a board that waited for another try when the rollout was stopped."""
        return self._outcome(Verdict(self._away, None, "stopped before another try"))

    def _revived(self, began: float) -> bool:
        """Power-cycle the board if it has been silent for long enough; return whether it answers again.

        Parameters
        ----------
        began
            When the last try began, by the monotonic clock.
        """
        power = self.board.power
        if power is None or not self.cycles.may_revive(self.board):
            return False
        # A link that broke in the try was a link before.
        since = time.monotonic() if self._attempt.answers else (self._silent_since or began)
        self._silent_since = since
        if time.monotonic() - since < power.silent_s:
            return False
        self._at("is silent: power-cycled")
        try:
            cycle = self.cycles.revive(self.board, self.stop)
        except ToolchainError as error:  # a limit; the board is tried again as one without power commands
            self._not_cycled = error.message
            return False
        if cycle is None:
            return False
        self.cycled(BoardCycled(board=cycle.board, answered_s=cycle.answered_s, text=cycle.text))
        self._silent_since = None
        return cycle.answered_s is not None

    @property
    def _away(self) -> BoardState:
        return "interrupted" if self._attempt.reached else "offline"

    def _outcome(self, verdict: Verdict) -> Outcome:
        error = verdict.error
        if self._not_cycled and verdict.state == self._away:
            error = f"{error}; {self._not_cycled}"
        return Outcome(
            state=verdict.state,
            version=verdict.version,
            seconds=round(time.monotonic() - self._began, 3),
            bytes_sent=self._sent,
            error=error,
            hint=verdict.hint,
            test=verdict.test,
            cause=verdict.cause,
            power_cycles=self.cycles.counts.get(self.board.name, 0),
        )

    def _at(self, step: str) -> None:
        self._step = step
        self.moved(self.board.name, step, self._sent)

    def _count(self, sent: int) -> None:
        self._sent += sent
        self.moved(self.board.name, self._step, self._sent)

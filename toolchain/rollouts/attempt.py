"""The tries on one board: each brings it to the release or says why not, and an error becomes another try."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import install as install_edge_rt
from toolchain.boards.power.cycles import PowerCycles
from toolchain.boards.transport import DeadlineError, LostError
from toolchain.errors import ToolchainError
from toolchain.events.rollouts import PASSING, BoardCycled, BoardMoved, BoardOutcome, BoardState, Cause
from toolchain.releases.export import Delivery
from toolchain.rollouts.installer import (
    AppStatus,
    InstallerLine,
    Progress,
    StoppedError,
    ask_status,
    give_first_trust,
    install,
)


def new_number() -> str:
    """Return a number for an attempt, as no host gave one before."""
    return secrets.token_hex(8)


def head_for(board: Board, delivery: Delivery, attempt: str) -> bytes:
    """Return the stream to a board up to the parts; `attempt` is the number of the attempt."""
    return delivery.head(board.record_class, attempt)


class Attempt:
    """One try on a board after the other.

    Attributes
    ----------
    reached
        Whether a connection to the board ever worked.
    answers
        Whether the board answered in the last try.
    unanswered
        The number of the attempt whose result is not known; None: all are known.
    """

    def __init__(self, board: Board, delivery: Delivery, progress: Progress) -> None:
        self.board, self.delivery, self.progress = board, delivery, progress
        self.reached = self.answers = False
        self.unanswered: str | None = None

    def run(self) -> BoardOutcome:
        """Bring the board to the release, once.

        Raises
        ------
        LostError, DeadlineError
            The board is away, or the link broke; another try may follow.
        StoppedError
            `progress.stop` was set.
        ToolchainError
            Something else failed, before the board judged the release.
        """
        board, signed = self.board, self.delivery.signed
        self.progress.step("connect")
        self.answers = False
        program = install_edge_rt(board).program
        self.reached = self.answers = True
        if self.unanswered or self.delivery.trust:
            status = ask_status(board, program)
            if self.unanswered:
                app = status.find(signed.release.app)
                known = known_outcome(app, self.unanswered, at_work=bool(status.at_work))
                if known:
                    return known
            if self.delivery.trust and status.trust is None:
                give_first_trust(board, program, self.delivery.trust.envelopes[0])
        self.unanswered = new_number()
        head = head_for(board, self.delivery, self.unanswered)
        line = install(board, program, signed, head, self.progress)
        self.unanswered = None
        return outcome_of(line, board)


def outcome_of(line: InstallerLine, board: Board) -> BoardOutcome:
    """Return what the last line of an installation or a rollback says about the board."""
    assert line.end  # noqa: S101 - it is the last line
    cause = line.cause
    error = f"{cause.step}: {cause.message}" if cause else None
    if line.rollback:
        error = f"{error}; and the way back failed, {line.rollback.step}: {line.rollback.message}"
    works = line.end in ("installed", "unchanged")
    return BoardOutcome(
        state=line.end,
        version=line.version if works else None,
        error=error,
        hint=_hint(cause, board),
        test=line.test,
        cause=cause,
    )


def _hint(cause: Cause | None, board: Board) -> str:
    if cause is None:
        return ""
    return {
        "trust": f"give it its first trust: `toolchain board provision {board.name} --trust FILE`",
        "space": f"look at its disk: `toolchain board status {board.name}`",
        "clock": f"set its clock: `toolchain board shell {board.name}`",
        "newest": f"write that file there: `toolchain board shell {board.name}`",
        "folder": f"look at that folder: `toolchain board shell {board.name}`",
        "busy": f"look at what runs there: `toolchain fleet status --board {board.name}`",
    }.get(cause.code, "")


def known_outcome(app: AppStatus | None, attempt: str, *, at_work: bool) -> BoardOutcome | None:
    """Return how an attempt ended whose link broke; None: another try goes on with it.

    What the board says of another attempt, such as the failure of an earlier rollout, is no answer.
    """
    if at_work:
        return BoardOutcome(state="interrupted", error="the board still works on it")
    if app is None or app.tried is None or app.tried.attempt != attempt:
        return None
    if app.state == "active" and app.digest == app.tried.digest and app.version == app.tried.version:
        return BoardOutcome(state="installed", version=app.version)
    cause = app.error
    if cause is None or cause.step in ("preflight", "receive") or app.state == "cut":
        return None
    if cause.code in PASSING or cause.code == "cut":  # a board that restarted may have undone what was cut
        return None
    state: BoardState = "refused" if cause.step in ("check", "unpack", "test") else "rolled-back"
    if app.state == "broken":
        state = "broken"
    return BoardOutcome(state=state, version=app.version, error=f"{cause.step}: {cause.message}", cause=cause)


_FIRST_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 30.0


@dataclass
class Job:
    """One board of a phase, over all its tries.

    Attributes
    ----------
    window_s
        Seconds from the first try in which others may begin.
    listen
        Called with each step, each chunk that was sent and each power cycle, from the thread of the job.
    not_before
        When the next try may begin, by the monotonic clock.
    cycles
        Power-cycles the board if it is silent; shared by all boards of the rollout.
    """

    board: Board
    delivery: Delivery
    window_s: float
    stop: Event
    listen: Callable[[BoardMoved | BoardCycled], None]
    not_before: float = 0.0
    cycles: PowerCycles = field(default_factory=PowerCycles)
    _began: float = 0.0
    _silent_since: float | None = None
    _not_cycled: str = ""
    _tries: int = 0
    _sent: int = 0
    _step: str = ""
    _attempt: Attempt = field(init=False)

    def __post_init__(self) -> None:
        progress = Progress(self._show_step, self._count_bytes, self.stop)
        self._attempt = Attempt(self.board, self.delivery, progress)

    def run(self) -> BoardOutcome | None:
        """Try once; return the outcome, None if another try shall follow."""
        now = time.monotonic()
        self._began = self._began or now
        self._tries += 1
        silent = False
        try:
            outcome = self._attempt.run()
        except StoppedError as error:
            return self._whole(BoardOutcome(state="interrupted", error=error.message))
        except (LostError, DeadlineError) as error:
            outcome = BoardOutcome(state=self._away, error=error.message, hint=error.hint)
            silent = isinstance(error, LostError)
        except ToolchainError as error:  # no other try mends it
            outcome = BoardOutcome(state="failed", error=error.message, hint=error.hint)
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
        if outcome.may_pass and in_window and not self.stop.is_set():
            self._show_step("waits to try again")
            return None
        return self._whole(outcome)

    def give_up(self) -> BoardOutcome:
        """Return the outcome of a board that waited for another try when the rollout was stopped."""
        return self._whole(BoardOutcome(state=self._away, error="stopped before another try"))

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
        self._show_step("is silent: power-cycled")
        try:
            cycle = self.cycles.revive(self.board, self.stop)
        except ToolchainError as error:  # a limit; the board is tried again as one without power commands
            self._not_cycled = error.message
            return False
        if cycle is None:
            return False
        self.listen(BoardCycled(board=cycle.board, answered_s=cycle.answered_s, text=cycle.text))
        self._silent_since = None
        return cycle.answered_s is not None

    @property
    def _away(self) -> BoardState:
        return "interrupted" if self._attempt.reached else "offline"

    def _whole(self, outcome: BoardOutcome) -> BoardOutcome:
        """Return the outcome of the last try with what all tries took."""
        error = outcome.error
        if self._not_cycled and outcome.state == self._away:
            error = f"{error}; {self._not_cycled}"
        return outcome.model_copy(
            update={
                "error": error,
                "seconds": round(time.monotonic() - self._began, 3),
                "bytes_sent": self._sent,
                "power_cycles": self.cycles.counts.get(self.board.name, 0),
            }
        )

    def _show_step(self, step: str) -> None:
        self._step = step
        self.listen(BoardMoved(board=self.board.name, step=step, sent=self._sent))

    def _count_bytes(self, sent: int) -> None:
        self._sent += sent
        self.listen(BoardMoved(board=self.board.name, step=self._step, sent=self._sent))

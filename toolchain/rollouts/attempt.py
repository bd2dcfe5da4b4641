"""One try to install a release on one board."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass

from toolchain.answers import understood
from toolchain.boards.board import Board, named
from toolchain.boards.edge_rt.answers import check_output
from toolchain.boards.edge_rt.install import command
from toolchain.boards.edge_rt.install import install as install_edge_rt
from toolchain.boards.transport import Completed
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import last_line
from toolchain.releases.envelope import Envelope
from toolchain.releases.exporting import stream_head
from toolchain.releases.signed import SignedRelease
from toolchain.releases.trust import TrustChain
from toolchain.rollouts.outcome import (
    AppThere,
    BoardState,
    Cause,
    FieldStatus,
    FieldTest,
    InstallLine,
    Told,
    read_lines,
    send_release,
)

# The commands of `edge-rt` that a rollout gives.

_FIELD = ("--field", "field")  # on the board, below the installation's folder
_ANSWER_S = 60.0


def ask_status(board: Board, program: str) -> FieldStatus:
    """Return what the board at present has, and who is at work there."""
    with named(board):
        completed = board.transport.run([program, "status", *_FIELD], timeout=_ANSWER_S)
    _check(completed, board, "status")
    what = "the answer of `edge-rt status`"
    return understood(FieldStatus, check_output(completed, board.name, what), board.name, what)


def give_first_trust(board: Board, program: str, first: Envelope) -> None:
    """Give a board that trusts nobody its first trust.

    Raises
    ------
    ToolchainError
        The board has another trust, or does not accept this one; the message has its reason.
    """
    with named(board):
        completed = board.transport.run(
            [program, "trust", *_FIELD, "--first"], input=first.to_bytes(), timeout=_ANSWER_S
        )
    _check(completed, board, "trust")


def install(board: Board, program: str, signed: SignedRelease, head: bytes, told: Told) -> InstallLine:
    """Send a release to a board; return the last line. Errors are those of `send_release`."""
    with named(board):
        argv = command(program, "install", "-", *_FIELD, only_device=board.only_device)
        with contextlib.closing(board.transport.talk(argv)) as dialogue:
            return send_release(dialogue, signed, head, board.name, told)


def roll_back(board: Board, program: str, app: str, leaves: str | None, told: Told) -> InstallLine:
    """Let a board go back to the release before; return the last line. Errors as of `read_lines`.

    Parameters
    ----------
    leaves
        The statement of the release to be left: a board that has left it does nothing more. None: the board
        says itself what it leaves.
    """
    named_release = ("--leave", leaves) if leaves else ()
    with named(board):
        argv = command(
            program, "rollback", *_FIELD, "--app", app, *named_release, only_device=board.only_device
        )
        with contextlib.closing(board.transport.talk(argv)) as dialogue:
            *_, last = read_lines(dialogue, board.name, told)
            return last


def _check(completed: Completed, board: Board, verb: str) -> None:
    if completed.returncode:
        said = last_line(completed.stdout if completed.stdout.strip() else completed.stderr)
        kind = UsageError if verb == "trust" else ToolchainError
        raise kind(f"board {board.name}: `edge-rt {verb}` failed: {said}")


_AGAIN = frozenset({"busy", "link", "resumed", "stopped"})
"""Causes that may be gone at the next try: another installation, a link, a part that did not fit together."""


@dataclass(frozen=True)
class Delivery:
    """The release, trust and permissions that every board of a rollout gets.

    Attributes
    ----------
    trust
        The trust file; its first version is given to boards that trust nobody, later ones to all.
    newest
        The newest version of the application that this host knows.
    downgrade
        Whether the operator allows an older version.
    """

    signed: SignedRelease
    trust: TrustChain | None = None
    newest: str | None = None
    downgrade: bool = False

    def head(self, board: Board, attempt: str) -> bytes:
        """Return the stream up to the parts; `attempt` is the number of the attempt."""
        return stream_head(
            self.signed,
            self.trust.envelopes if self.trust else (),
            newest=self.newest,
            downgrade=self.downgrade,
            board_class=board.record_class,
            attempt=attempt,
        )


def new_number() -> str:
    """Return a number for an attempt, as no host gave one before."""
    return secrets.token_hex(8)


@dataclass(frozen=True)
class Verdict:
    """The answer of a board to a release; `again`: its reason may be gone at the next try."""

    state: BoardState
    version: str | None
    error: str | None = None
    hint: str = ""
    test: FieldTest | None = None
    cause: Cause | None = None
    again: bool = False


class Attempt:
    """The tries on one board, one after the other.

    Attributes
    ----------
    reached
        Whether a connection to the board ever worked.
    answers
        Whether the board answered in the last try.
    asked
        The number of the attempt whose result is not known; None: all are known.
    """

    def __init__(self, board: Board, delivery: Delivery, told: Told) -> None:
        self.board, self.delivery, self.told = board, delivery, told
        self.reached = self.answers = False
        self.asked: str | None = None

    def run(self) -> Verdict:
        """Bring the board to the release, once.

        Raises
        ------
        LostError, DeadlineError
            The board is away, or the link broke; another try may follow.
        StoppedError
            `told.stop` was set.
        ToolchainError
            Something else failed, before the board judged the release.
        """
        board, signed = self.board, self.delivery.signed
        self.told.step("connect")
        self.answers = False
        program = install_edge_rt(board).program
        self.reached = self.answers = True
        if self.asked or self.delivery.trust:
            status = ask_status(board, program)
            if self.asked:
                app = status.find(signed.release.app)
                known = _known_end(app, self.asked, at_work=bool(status.at_work))
                if known:
                    return known
            if self.delivery.trust and status.trust is None:
                give_first_trust(board, program, self.delivery.trust.envelopes[0])
        self.asked = new_number()
        line = install(board, program, signed, self.delivery.head(board, self.asked), self.told)
        self.asked = None
        return verdict(line, board)


def verdict(line: InstallLine, board: Board) -> Verdict:
    """Return what the last line of an installation means."""
    assert line.end  # noqa: S101 - it is the last line
    cause = line.cause
    error = f"{cause.step}: {cause.message}" if cause else None
    if line.rollback:
        error = f"{error}; and the way back failed, {line.rollback.step}: {line.rollback.message}"
    again = line.end in ("interrupted", "refused") and cause is not None and cause.code in _AGAIN
    works = line.end in ("installed", "unchanged")
    return Verdict(
        line.end, line.version if works else None, error, _hint(cause, board), line.test, cause, again
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


def _known_end(there: AppThere | None, attempt: str, *, at_work: bool) -> Verdict | None:
    """Return how an attempt ended whose link broke; None: another try goes on with it.

    What the board says of another attempt, such as the failure of an earlier rollout, is no answer.
    """
    if at_work:
        return Verdict("interrupted", None, "the board still works on it", again=True)
    if there is None or there.tried is None or there.tried.attempt != attempt:
        return None
    if (
        there.state == "active"
        and there.digest == there.tried.digest
        and there.version == there.tried.version
    ):
        return Verdict("installed", there.version)
    cause = there.error
    if cause is None or cause.step in ("preflight", "receive") or there.state == "cut":
        return None
    if cause.code in _AGAIN or cause.code == "cut":  # a board that restarted may have undone what was cut
        return None
    state: BoardState = "refused" if cause.step in ("check", "unpack", "test") else "rolled-back"
    if there.state == "broken":
        state = "broken"
    return Verdict(state, there.version, f"{cause.step}: {cause.message}", cause=cause)


def failure(error: ToolchainError) -> Verdict:
    """Return the verdict for an error that no other try mends."""
    return Verdict("failed", None, error.message, error.hint)

"""The installer on a board, `edge-rt install`, and its sister commands: their answers and their use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Literal

from pydantic import Field, model_validator

from toolchain.answers import Answer, Several, Word, lie, understood
from toolchain.boards.board import Board, named
from toolchain.boards.edge_rt.answers import check_output
from toolchain.boards.edge_rt.install import command
from toolchain.boards.transport import MOST_LINE, SLOWEST_DISK, Completed, Dialogue
from toolchain.errors import ToolchainError, UsageError
from toolchain.events.rollouts import Cause, FieldTest, Whole
from toolchain.foreign import last_line
from toolchain.releases.envelope import Envelope
from toolchain.releases.signed_release import SignedRelease

# What boards print (docs/release-format.md), checked.

End = Literal["installed", "unchanged", "refused", "interrupted", "rolled-back", "broken"]
InstallStep = Literal[
    "preflight", "receive", "check", "unpack", "test", "activate", "health", "commit", "rollback"
]


class AtWork(Answer):
    """The process that holds the board's lock for installations, and what it does."""

    pid: Whole
    what: Word


class LastTry(Answer):
    """The release that was installed last, or tried, and the number that its host gave the attempt."""

    version: Word | None
    digest: Word | None
    attempt: Word | None = None


class AppStatus(Answer):
    """One application on a board; `since` is in seconds since 1970, `newest` is the newest it ever ran.

    `digest` is the bundle's; `statement` that of what was signed, which tells releases of a bundle apart.
    """

    app: Word
    state: Literal["installing", "cut", "broken", "active", "none"]
    version: Word | None
    digest: Word | None
    statement: Word | None = None
    previous: Word | None
    newest: Word | None = None
    since: Whole
    tried: LastTry | None = None
    error: Cause | None = None


class TrustStatus(Answer):
    """The trust of a board: its version, and when it expires, in seconds since 1970."""

    version: Whole
    expires: Whole


class FieldStatus(Answer):
    """The answer of `edge-rt status`."""

    apps: Several[AppStatus] = Field(max_length=1000)
    trust: TrustStatus | None
    at_work: AtWork | None

    def find(self, app: str) -> AppStatus | None:
        """Return the application of that name."""
        return next((status for status in self.apps if status.app == app), None)


class InstallerLine(Answer):
    """One line of an installation: a step that begins, the parts that are needed, or the result."""

    step: InstallStep | None = None
    need: tuple[tuple[Whole, Whole], ...] | None = Field(None, max_length=256)
    end: End | None = None
    app: Word | None = None
    version: Word | None = None
    digest: Word | None = None
    previous: Word | None = None
    attempt: Word | None = None
    received: Whole = 0
    test: FieldTest | None = None
    cause: Cause | None = None
    rollback: Cause | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> InstallerLine:
        if sum(kind is not None for kind in (self.step, self.need, self.end)) != 1:
            raise ValueError("it is none of step, need and end, or several of them")
        return self


# The commands of `edge-rt` that a rollout gives.

_FIELD = ("--field", "field")  # on the board, below the installation's folder
_ANSWER_S = 60.0


@dataclass
class Progress:
    """Receives the progress of one board.

    Attributes
    ----------
    step
        Called with the name of a step that begins.
    sent
        Called with the number of bytes of each chunk that was sent.
    stop
        Set when no more bytes shall be sent.
    """

    step: Callable[[str], None] = lambda _: None
    sent: Callable[[int], None] = lambda _: None
    stop: Event = field(default_factory=Event)


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


def install(
    board: Board, program: str, signed: SignedRelease, head: bytes, progress: Progress
) -> InstallerLine:
    """Send a release to a board; return the last line. Errors are those of `send_release`."""
    with named(board):
        argv = command(program, "install", "-", *_FIELD, only_device=board.only_device)
        with contextlib.closing(board.transport.talk(argv)) as dialogue:
            return send_release(dialogue, signed, head, board.name, progress)


def roll_back(board: Board, program: str, app: str, leaves: str | None, progress: Progress) -> InstallerLine:
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
            *_, last = read_lines(dialogue, board.name, progress)
            return last


def _check(completed: Completed, board: Board, verb: str) -> None:
    if completed.returncode:
        reason = last_line(completed.stdout if completed.stdout.strip() else completed.stderr)
        kind = UsageError if verb == "trust" else ToolchainError
        raise kind(f"board {board.name}: `edge-rt {verb}` failed: {reason}")


# The host's side of an installation: sends what the board asks for, and reads its lines.

PATIENCE_S = 60.0  # for a board that takes no bytes
_STEP_S = 180.0  # for a step that answers at once unless the board's disk hangs
_TEST_RUNS = 2  # its deadline, and what starts and ends around it
_PREFLIGHT_READS = (
    3  # what a cut left, what is current, and what its releases have in common with the new one
)
_HEALTH_S = 3600.0  # the board's own policy says how long its health command may take
_MOST_LINES = 1000  # an installation prints about a dozen
_SLICE = 1 << 17  # bytes between two looks at `stop`: a second on a poor radio link
_WHAT = "a line of edge-rt about an installation"


class StoppedError(ToolchainError):
    """The rollout was stopped while parts were sent; the board keeps what it received."""


def send_release(
    dialogue: Dialogue, signed: SignedRelease, head: bytes, board: str, progress: Progress
) -> InstallerLine:
    """Send a release through a dialogue with `edge-rt install -`; return the last line.

    Parameters
    ----------
    head
        The stream up to the parts.
    board
        The board's name, for messages.

    Raises
    ------
    CheckError
        A line of the board cannot be right.
    StoppedError
        `progress.stop` was set before all parts were sent.
    DeadlineError, LostError
        The board or the link stopped.
    ToolchainError
        edge-rt ended without a result.
    """
    if dialogue.send(head, PATIENCE_S):
        progress.sent(len(head))
    reading = sum(signed.release.sizes) / SLOWEST_DISK  # all of it, which a board does in these steps
    limits = {
        **dict.fromkeys(("receive", "check", "unpack"), _STEP_S + reading),
        "preflight": _STEP_S + _PREFLIGHT_READS * reading,
        "test": _STEP_S + signed.release.test.timeout_s * _TEST_RUNS,
    }
    for line in read_lines(dialogue, board, progress, limits):
        if line.need is not None:
            _send_parts(dialogue, signed, line.need, board, progress)
        if line.end:
            return line
    raise AssertionError  # `read_lines` raises instead


def read_lines(
    dialogue: Dialogue, board: str, progress: Progress, limits: dict[str, float] | None = None
) -> Iterator[InstallerLine]:
    """Yield the lines of `edge-rt install` or `edge-rt rollback`; the last one has `end`.

    Parameters
    ----------
    limits
        Seconds that steps may take, by their names; others take at most three minutes.

    Raises
    ------
    CheckError, DeadlineError, LostError, ToolchainError
        As of `send_release`.
    """
    seconds = {"health": _HEALTH_S, "rollback": _HEALTH_S, **(limits or {})}
    limit = _STEP_S
    for _ in range(_MOST_LINES):
        text = dialogue.read_line(limit)
        if not text:
            code = dialogue.wait(_STEP_S)
            raise ToolchainError(
                f"board {board}: edge-rt ended with code {code} and without a result: "
                f"{last_line(dialogue.errors())}"
            )
        line = understood(InstallerLine, text, board, _WHAT, MOST_LINE)
        if line.step:
            progress.step(line.step)
            limit = seconds.get(line.step, _STEP_S)
        yield line
        if line.end:
            return
    raise lie(board, _WHAT, f"there are more than {_MOST_LINES} of them")


def _send_parts(
    dialogue: Dialogue,
    signed: SignedRelease,
    need: tuple[tuple[int, int], ...],
    board: str,
    progress: Progress,
) -> None:
    for index, offset in need:
        if index >= len(signed.parts) or offset > signed.parts[index].size:
            raise lie(board, _WHAT, f"it asks for part {index} from byte {offset} on, which is not there")
        patience = PATIENCE_S + offset / SLOWEST_DISK  # it reads what it has before it takes more
        for chunk in _sliced(signed.part(index, offset)):
            if progress.stop.is_set():
                raise StoppedError(f"board {board}: stopped while it received {signed.parts[index].name}")
            if not dialogue.send(chunk, patience):
                return  # the board has a reason, which its next line gives
            progress.sent(len(chunk))


def _sliced(chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for begin in range(0, len(chunk), _SLICE):
            yield chunk[begin : begin + _SLICE]

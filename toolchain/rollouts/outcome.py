"""The result of one board."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolchain.answers import Answer, Sentence, Several, Word, lie, understood
from toolchain.boards.transport import MOST_LINE, SLOWEST_DISK, Dialogue
from toolchain.errors import ToolchainError
from toolchain.foreign import last_line
from toolchain.releases.signed import SignedRelease

# The lines that `edge-rt install` and `edge-rt rollback` print (docs/release-format.md), checked.

Ended = Literal["installed", "unchanged", "refused", "interrupted", "rolled-back", "broken"]
InstallStep = Literal[
    "preflight", "receive", "check", "unpack", "test", "activate", "health", "commit", "rollback"
]
_Whole = Annotated[int, Field(ge=0, le=2**53)]


class Cause(Answer):
    """The first failure of an installation, or the failure of the way back."""

    code: Word
    step: Word
    message: Sentence


class FieldTest(Answer):
    """Results of a self-test: largest error in parts per billion, median latency, peak memory.

    The error is None if the outputs cannot be compared: one is not finite, or has another shape.
    """

    error_ppb: _Whole | None
    latency_us: _Whole
    memory_kib: _Whole
    runs: _Whole


class AtWork(Answer):
    """The process that holds the board's lock for installations, and what it does."""

    pid: _Whole
    what: Word


class Tried(Answer):
    """The release that was installed last, or tried, and the number that its host gave the attempt."""

    version: Word | None
    digest: Word | None
    attempt: Word | None = None


class AppThere(Answer):
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
    since: _Whole
    tried: Tried | None = None
    error: Cause | None = None


class TrustThere(Answer):
    """The trust of a board: its version, and when it expires, in seconds since 1970."""

    version: _Whole
    expires: _Whole


class FieldStatus(Answer):
    """The answer of `edge-rt status`."""

    apps: Several[AppThere] = Field(max_length=1000)
    trust: TrustThere | None
    at_work: AtWork | None

    def find(self, app: str) -> AppThere | None:
        """Return the application of that name."""
        return next((each for each in self.apps if each.app == app), None)


class InstallLine(Answer):
    """One line of an installation: a step that begins, the parts that are needed, or the result."""

    step: InstallStep | None = None
    need: tuple[tuple[_Whole, _Whole], ...] | None = Field(None, max_length=256)
    end: Ended | None = None
    app: Word | None = None
    version: Word | None = None
    digest: Word | None = None
    previous: Word | None = None
    attempt: Word | None = None
    received: _Whole = 0
    test: FieldTest | None = None
    cause: Cause | None = None
    rollback: Cause | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> InstallLine:
        if sum(each is not None for each in (self.step, self.need, self.end)) != 1:
            raise ValueError("it is none of step, need and end, or several of them")
        return self


BoardState = Literal[
    "installed",
    "unchanged",
    "refused",
    "interrupted",
    "rolled-back",
    "broken",
    "offline",
    "failed",
    "skipped",
]
WORKS: frozenset[BoardState] = frozenset({"installed", "unchanged"})
"""States of boards that run the release."""

FAILURES: frozenset[BoardState] = frozenset({"refused", "rolled-back", "broken", "failed"})
"""States that count against `--max-failures`; a board out of reach says nothing about the release."""


class Outcome(BaseModel):
    """The end of a board's part in a rollout.

    Attributes
    ----------
    state
        The board's own last word; or `offline`: it was never reached; `interrupted`: the link broke or the
        rollout was stopped, and the next try goes on; `failed`: something else went wrong before the release
        was judged; `skipped`: the rollout ended before its turn.
    version
        The version that the board runs now, if known.
    seconds
        Duration of all tries.
    bytes_sent
        Bytes of the stream that were sent, of all tries.
    error, hint
        What went wrong, and what to type.
    power_cycles
        Number of times that the board was power-cycled because it was silent.
    """

    model_config = ConfigDict(frozen=True)

    state: BoardState
    version: str | None = None
    seconds: float = 0.0
    bytes_sent: int = 0
    error: str | None = None
    hint: str = ""
    test: FieldTest | None = None
    cause: Cause | None = None
    power_cycles: int = 0


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


@dataclass
class Told:
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


def send_release(
    dialogue: Dialogue, signed: SignedRelease, head: bytes, board: str, told: Told
) -> InstallLine:
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
        `told.stop` was set before all parts were sent.
    DeadlineError, LostError
        The board or the link stopped.
    ToolchainError
        edge-rt ended without a result.
    """
    if dialogue.send(head, PATIENCE_S):
        told.sent(len(head))
    reading = sum(signed.release.sizes) / SLOWEST_DISK  # all of it, which a board does in these steps
    limits = {
        **dict.fromkeys(("receive", "check", "unpack"), _STEP_S + reading),
        "preflight": _STEP_S + _PREFLIGHT_READS * reading,
        "test": _STEP_S + signed.release.test.timeout_s * _TEST_RUNS,
    }
    for line in read_lines(dialogue, board, told, limits):
        if line.need is not None:
            _send_parts(dialogue, signed, line.need, board, told)
        if line.end:
            return line
    raise AssertionError  # `read_lines` raises instead


def read_lines(
    dialogue: Dialogue, board: str, told: Told, limits: dict[str, float] | None = None
) -> Iterator[InstallLine]:
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
        line = understood(InstallLine, text, board, _WHAT, MOST_LINE)
        if line.step:
            told.step(line.step)
            limit = seconds.get(line.step, _STEP_S)
        yield line
        if line.end:
            return
    raise lie(board, _WHAT, f"there are more than {_MOST_LINES} of them")


def _send_parts(
    dialogue: Dialogue, signed: SignedRelease, need: tuple[tuple[int, int], ...], board: str, told: Told
) -> None:
    for index, offset in need:
        if index >= len(signed.parts) or offset > signed.parts[index].size:
            raise lie(board, _WHAT, f"it asks for part {index} from byte {offset} on, which is not there")
        patience = PATIENCE_S + offset / SLOWEST_DISK  # it reads what it has before it takes more
        for chunk in _sliced(signed.part(index, offset)):
            if told.stop.is_set():
                raise StoppedError(f"board {board}: stopped while it received {signed.parts[index].name}")
            if not dialogue.send(chunk, patience):
                return  # the board has a reason, which its next line gives
            told.sent(len(chunk))


def _sliced(chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for begin in range(0, len(chunk), _SLICE):
            yield chunk[begin : begin + _SLICE]

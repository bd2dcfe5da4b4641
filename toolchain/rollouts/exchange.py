"""The host's side of an installation: sends what the board asks for, and reads its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event

from toolchain.answers import lie, understood
from toolchain.boards.transport import MOST_LINE, SLOWEST_DISK, Dialogue
from toolchain.errors import ToolchainError
from toolchain.foreign import last_line
from toolchain.releases.signed import SignedRelease
from toolchain.rollouts.answers import InstallLine

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

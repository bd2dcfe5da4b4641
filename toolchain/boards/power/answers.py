"""Asks whether a board answers, and waits until it does."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from toolchain.boards.board import Board, named
from toolchain.boards.ssh.authentication import RefusedError
from toolchain.boards.transport import LostError, WayError
from toolchain.errors import ToolchainError, UsageError

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MOST_ID = 64
_ASK_S = 15.0
_PAUSE_S = 1.0
# A command may return before the power is gone: so long a board that answers may still be the old boot.
SETTLE_S = 10.0


@dataclass(frozen=True)
class Answered:
    """The first answer of a board, after `seconds`; `restarted`: it is of another boot (None: unknown)."""

    seconds: float
    restarted: bool | None


def ask_boot(board: Board) -> str:
    """Return the id that a board's kernel has given its present boot; empty if it does not say.

    Raises
    ------
    LostError
        The board is silent.
    ToolchainError
        It answers, and cannot be asked.
    """
    with named(board), board.transport.at_home() as home:
        if not home.transport.has_system:
            return ""
        said = home.transport.run(["cat", _BOOT_ID], timeout=_ASK_S)
    return said.stdout[:_MOST_ID].decode(errors="replace").strip()


def silence_of(board: Board) -> LostError | None:
    """Ask a board anew; return why it is silent, None if it answers or if that cannot be told.

    A board that refuses the login, or answers slowly, is not silent. If this host has no network, or a jump
    host on the way does not answer, nothing is known about the board.
    """
    try:
        ask_boot(board)
    except WayError:
        return None
    except LostError as error:
        return error
    except ToolchainError:
        return None
    return None


def boot_if_there(board: Board) -> str:
    """Return the id of a board's boot; empty if it does not answer or does not say."""
    try:
        return ask_boot(board)
    except ToolchainError:
        return ""


def wait_until_answers(
    board: Board, seconds: float, stop: threading.Event | None = None, before: str = ""
) -> Answered | None:
    """Wait until a board answers a login; return None if `stop` was set before.

    Parameters
    ----------
    before
        The id of its boot before it was switched; empty: unknown. The same boot is taken for an answer only
        after `SETTLE_S`.

    Raises
    ------
    UsageError
        The board answers, and is another one, for instance: waiting would not help.
    ToolchainError
        It did not answer in time; the message has the last reason.
    """
    begun = time.monotonic()
    stop = stop or threading.Event()
    while not stop.is_set():
        reason = ""
        try:
            boot = ask_boot(board)
        except (LostError, RefusedError) as error:  # systemd refuses logins while the system comes up
            reason = error.message
        except UsageError:
            raise
        except ToolchainError as error:
            reason = error.message
        waited = time.monotonic() - begun
        if not reason and (boot != before or not before or waited >= min(SETTLE_S, seconds)):
            return Answered(waited, boot != before if boot and before else None)
        if waited >= seconds:
            said = f"board {board.name} did not answer within {seconds:g} s after it was switched"
            raise ToolchainError(f"{said}: {reason}", f"`toolchain board status {board.name}` asks it again")
        stop.wait(min(_PAUSE_S, max(0.0, seconds - waited)))
    return None

"""Power-cycles boards that went silent, within the limits of each board."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolchain.boards.board import Board, named
from toolchain.boards.power.switch import power_of, switch
from toolchain.boards.ssh.authentication import RefusedError
from toolchain.boards.transport import LostError, WayError
from toolchain.configuration.power import PowerCommands
from toolchain.configuration.settings import configuration, state_dir
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.files.turns import one_at_a_time

# Asks whether a board answers, and waits until it does.

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
        completed = home.transport.run(["cat", _BOOT_ID], timeout=_ASK_S)
    return completed.stdout[:_MOST_ID].decode(errors="replace").strip()


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
            message = f"board {board.name} did not answer within {seconds:g} s after it was switched"
            raise ToolchainError(
                f"{message}: {reason}", f"`toolchain board status {board.name}` asks it again"
            )
        stop.wait(min(_PAUSE_S, max(0.0, seconds - waited)))
    return None


_LOOK_S = 90.0  # for another process to ask the board, at most


class LimitError(ToolchainError):
    """A silent board may not be power-cycled now; `for_good`: nor later in this run."""

    def __init__(self, message: str, *, for_good: bool) -> None:
        super().__init__(message)
        self.for_good = for_good


@dataclass(frozen=True)
class PowerCycle:
    """A board that was power-cycled because it was silent.

    Attributes
    ----------
    reason
        Why it was thought silent: the last error.
    answered_s
        Seconds until it answered again; None if it does not, or nobody waited.
    error
        Why it does not answer, or what its power command said; empty if it answers.
    is_last
        Whether the run will not power-cycle it again.
    """

    board: str
    reason: str
    answered_s: float | None
    error: str = ""
    is_last: bool = False

    @property
    def text(self) -> str:
        """A sentence for the user."""
        if self.answered_s is not None:
            ended = f"it answers again after {self.answered_s:.1f} s"
        else:
            ended = self.error or "nobody waited for its answer"
        reason = self.reason.removeprefix(f"board {self.board}: ")
        last = "; it is not power-cycled again in this run" if self.is_last else ""
        return f"board {self.board} was silent ({reason}) and was power-cycled: {ended}{last}"


class PowerCycles:
    """The power cycles of one run: at most as many as each board's entry allows.

    A board that did not come back is not power-cycled again in the run. Between two cycles of a machine the
    least time of its entry passes, whichever command of this host caused them: the time of the last one is
    kept in the state folder. Boards are switched one after the other.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lost: set[str] = set()
        self._switching = threading.Lock()  # while a board may be without power

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of power cycles of each board that had any, by its name."""
        return dict(self._counts)

    def may_revive(self, board: Board) -> bool:
        """Whether the run may still power-cycle a board, now or later."""
        if board.power is None or board.name in self._lost:
            return False
        return self._counts.get(board.name, 0) < board.power.most_cycles

    def revive(self, board: Board, stop: threading.Event) -> PowerCycle | None:
        """Power-cycle a board if it is still silent, and wait until it answers.

        Returns
        -------
        PowerCycle or None
            None if nothing was switched: the board answers, or `stop` was set.

        Raises
        ------
        LimitError
            Its limits do not allow it.
        ToolchainError
            Another process has been at it for too long, or the state folder cannot be written.
        """
        power = power_of(board)
        if not self.may_revive(board):
            times = self._counts.get(board.name, 0)
            raise LimitError(
                f"board {board.name} is silent and is not power-cycled again in this run: "
                + ("that did not help" if board.name in self._lost else f"that was done {times} times"),
                for_good=True,
            )
        last = _last_cycle(board)
        # Held until the board answers: another process that wants to revive it finds it well.
        patience_s = _LOOK_S + 2 * power.timeout_s + power.pause_s + power.boot_s
        with one_at_a_time(last.with_suffix(".lock"), patience_s, f"reviving board {board.name}"):
            silence = None if stop.is_set() else silence_of(board)
            if silence is None:
                return None
            _check_time(board, last, power.between_s)
            return self._cycled(board, power, silence.message, last, stop)

    def _cycled(
        self, board: Board, power: PowerCommands, reason: str, last: Path, stop: threading.Event
    ) -> PowerCycle | None:
        """Switch a silent board and wait for it; `last`: the file that takes the time."""
        with self._switching:
            if stop.is_set():
                return None
            # Cut, not rounded: half a second ahead would read as a clock that was set, and count for nothing.
            atomic.write_text(last, f"{int(time.time())}\n", mode=0o600)
            self._counts[board.name] = self._counts.get(board.name, 0) + 1
            try:
                switch(board, "cycle")
            except ToolchainError as error:
                self._lost.add(board.name)
                return PowerCycle(board.name, reason, None, error.message, is_last=True)
        try:
            answered = wait_until_answers(board, power.boot_s, stop)
        except ToolchainError as error:
            self._lost.add(board.name)
            return PowerCycle(board.name, reason, None, error.message, is_last=True)
        answered_s = answered.seconds if answered else None
        return PowerCycle(board.name, reason, answered_s, is_last=not self.may_revive(board))

    def finish_switching(self, seconds: float) -> None:
        """Wait until no board is being switched, at most `seconds`."""
        if self._switching.acquire(timeout=seconds):
            self._switching.release()


def _last_cycle(board: Board) -> Path:
    """Return the file with the time of the last cycle of the machine that a board is, or is a device of."""
    folder = state_dir() / "power"
    try:
        atomic.make_private_folder(state_dir())
        atomic.make_private_folder(folder)
    except OSError as error:
        raise atomic.cannot_write(folder, error) from error
    entry = configuration().boards.get(board.name)
    words = f"{entry.jump} {entry.host} {entry.port}" if entry else board.name
    return folder / hashlib.sha256(words.encode()).hexdigest()[:16]


def _check_time(board: Board, last: Path, between_s: float) -> None:
    ago = None
    with contextlib.suppress(OSError, ValueError):
        ago = time.time() - float(last.read_text())
    if ago is not None and 0 <= ago < between_s:  # a time to come says that a clock was set
        raise LimitError(
            f"board {board.name} is silent, and was power-cycled {ago:.0f} s ago: "
            f"not again before {between_s - ago:.0f} s have passed",
            for_good=False,
        )

"""Revives boards of a run that went silent, by power-cycling them once."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from toolchain.boards.board import Board
from toolchain.boards.power.cycles import LimitError, PowerCycles, silence_of, wait_until_answers
from toolchain.errors import ToolchainError
from toolchain.tuning.boards.pool import PooledBoard
from toolchain.tuning.events import Listener, Notice, PowerCycled

_LOOK_S = 3.0  # between two looks at a board that is away
_SWITCH_S = 120.0  # for a board that is just being switched when the run ends


class Revival:
    """Watches boards that are away, each in a thread, and power-cycles those that are silent.

    A board that answers is never power-cycled, whatever keeps the lab from using it.

    Parameters
    ----------
    tell
        Called with what was done, from several threads.
    """

    def __init__(self, tell: Listener) -> None:
        self._tell = tell
        self._cycles = PowerCycles()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._watched: set[str] = set()
        self._silent: set[str] = set()
        self._told: set[str] = set()

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of power cycles of each board that had any, by its name."""
        return self._cycles.counts

    @property
    def at_work(self) -> bool:
        """Whether a board is silent that may come back by being power-cycled."""
        return bool(self._silent)

    def watch(self, pooled: PooledBoard) -> None:
        """Watch a board that is away until it is back, dropped, or cannot be revived."""
        board = pooled.board
        with self._lock:
            if self._stop.is_set() or board.name in self._watched or not self._cycles.may_revive(board):
                return
            self._watched.add(board.name)
        threading.Thread(
            target=self._watch, args=(pooled,), name=f"revival of {board.name}", daemon=True
        ).start()

    def revive(self, board: Board) -> bool:
        """Wait until a silent board answers, and power-cycle it if it does not; return whether it answers.

        False at once if the run may not power-cycle it.
        """
        if board.power is None or not self._cycles.may_revive(board):
            return False
        until = time.monotonic() + board.power.silent_s
        while silence_of(board) is not None:
            if time.monotonic() >= until:
                try:
                    return self._revive(board) and silence_of(board) is None
                except ToolchainError as error:
                    self._tell_once(board, error.message)
                    return False
            if self._stop.wait(_LOOK_S):
                return False
        try:  # one that comes up may refuse the login for a while
            return wait_until_answers(board, board.power.boot_s, self._stop) is not None
        except ToolchainError:
            return False

    def close(self) -> None:
        """Let nothing be switched any more; wait for a board that is just being switched."""
        self._stop.set()
        self._cycles.finish_switching(_SWITCH_S)

    def _watch(self, pooled: PooledBoard) -> None:
        board = pooled.board
        try:
            self._until_it_is_back(pooled)
        except ToolchainError as error:
            self._tell_once(board, error.message)
        finally:
            with self._lock:
                self._watched.discard(board.name)
                self._silent.discard(board.name)

    def _until_it_is_back(self, pooled: PooledBoard) -> None:
        board, power = pooled.board, pooled.board.power
        assert power is not None  # noqa: S101 - `may_revive` said so
        silent_since = None
        while pooled.away is not None and not pooled.aside and not self._stop.is_set():
            if silence_of(board) is None:
                silent_since = None
                self._silent.discard(board.name)
            else:
                silent_since = silent_since or time.monotonic()
                self._silent.add(board.name)
                if time.monotonic() - silent_since >= power.silent_s and not self._revive(board):
                    return
            self._stop.wait(_LOOK_S)

    def _revive(self, board: Board) -> bool:
        """Power-cycle a silent board; return whether to watch it further."""
        try:
            cycle = self._cycles.revive(board, self._stop)
        except LimitError as error:
            self._silent.discard(board.name)
            self._tell_once(board, error.message)
            return not error.for_good
        if cycle:
            self._tell(PowerCycled(cycle.text, board.name, cycle.answered_s))
        return cycle is None or not cycle.error

    def _tell_once(self, board: Board, text: str) -> None:
        if board.name not in self._told:
            self._told.add(board.name)
            self._tell(Notice(text))

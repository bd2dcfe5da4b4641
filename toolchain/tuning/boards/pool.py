"""Lends the boards of a run to threads, one worker process each; boards that are away are left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from toolchain.boards.board import Board
from toolchain.errors import ToolchainError
from toolchain.processes.worker import Worker
from toolchain.rpc.client import TrackerClient
from toolchain.rpc.lab import Lab

START_S = 120.0
"""Seconds for a board's worker process to import TVM: takes 2 s, longer on a busy machine."""
GRACE_S = 20.0
"""Seconds beyond a session's deadline, at which the server ends it, until a worker counts as hanging."""
BUSY_S = 30.0
"""Seconds to wait for a board that another client uses, or whose server is restarting, beyond a session."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
# A board that cools down is tried again after 30 s, then less often, but before a run gives up.
_FIRST_COOLING_S = 30.0
_LONGEST_COOLING_S = 120.0
_SETTLE_S = 0.3  # until the tracker knows that a server is gone; a restarted one needs at least as long
# A run gives up after all boards were away for this long; a reboot takes up to 90 s.
ALL_AWAY_S = 180.0


class BoardLostError(Exception):
    """The board went away or hangs, which says nothing about the candidate that it measured."""


@dataclass
class PooledBoard:
    """A board, and the worker process on this host that talks to it.

    Attributes
    ----------
    port
        Last known port of its server; a restarted server has another one.
    away
        Reason why it is left out for now; None if it takes part.
    aside
        Whether it is excluded for the rest of the run.
    pause_s, cooling_s
        Length of the next pause while it is away, and while it cools down.
    not_before
        When it may be tried again, on the clock of `time.monotonic`.
    """

    board: Board
    worker: Worker = field(default_factory=Worker)
    port: int = 0
    away: str | None = None
    aside: bool = False
    pause_s: float = _FIRST_PAUSE_S
    cooling_s: float = _FIRST_COOLING_S
    not_before: float = 0.0

    @property
    def key(self) -> str:
        """The tracker's key for exactly this board."""
        return f"{self.board.tracker_key}@{self.board.name}"


class Reviving(Protocol):
    """Revives boards that went silent."""

    @property
    def at_work(self) -> bool:
        """Whether a board is silent that may come back."""

    def watch(self, pooled: PooledBoard) -> None:
        """Look after a board that is away."""

    def close(self) -> None:
        """Stop looking after boards."""


class BoardPool:
    """Lends each board to one thread at a time.

    Parameters
    ----------
    notice
        Called with a sentence when a board is left out and when it is back.
    revival
        Revives boards that are away; None: nothing does.
    """

    def __init__(
        self,
        boards: Sequence[Board],
        lab: Lab,
        notice: Callable[[str], None],
        revival: Reviving | None = None,
    ) -> None:
        self.all = [PooledBoard(board) for board in boards]
        self._lab = lab
        self._notice = notice
        self._revival = revival
        self._free = list(self.all)
        self._changed = threading.Condition()
        self._asking: set[TrackerClient] = set()
        self._closed = False
        self._some_there = time.monotonic()

    @contextmanager
    def take(self) -> Iterator[PooledBoard]:
        """Yield a board that can be reached; a `BoardLostError` in the block leaves it out for a while.

        Raises
        ------
        ToolchainError
            No board could be reached for `ALL_AWAY_S`, and none is being revived.
        """
        pooled = self._take()
        try:
            yield pooled
        except BoardLostError as error:
            self.leave_out(pooled, str(error))
            raise
        finally:
            self._put_back(pooled)

    def lost(self, pooled: PooledBoard) -> bool:
        """Whether the server that the board had when it was taken is gone. May sleep for `_SETTLE_S`."""
        if self._server_port(pooled) == pooled.port:
            time.sleep(_SETTLE_S)
        return self._server_port(pooled) != pooled.port

    def leave_out(self, pooled: PooledBoard, reason: str) -> None:
        """Leave out a board that cannot be reached; it is retried with exponential back-off."""
        if pooled.aside:
            return
        if pooled.away is None and not self._closed:
            self._notice(f"board {pooled.board.name} is away: {reason}")
            pooled.pause_s = _FIRST_PAUSE_S
        pooled.away = pooled.away or reason
        pooled.not_before = time.monotonic() + pooled.pause_s
        pooled.pause_s = min(2 * pooled.pause_s, _LONGEST_PAUSE_S)
        if self._revival and not self._closed:
            self._revival.watch(pooled)

    def let_cool(self, pooled: PooledBoard, reason: str) -> bool:
        """Leave a board out until it has cooled down, if there is another; return whether it is left out."""
        with self._changed:
            if pooled.aside or not self._another(pooled):
                return False
            pooled.away = reason
            pooled.not_before = time.monotonic() + pooled.cooling_s
        self._notice(f"board {pooled.board.name} cools down for {pooled.cooling_s:g} s: {reason}")
        pooled.cooling_s = min(2 * pooled.cooling_s, _LONGEST_COOLING_S)
        return True

    def put_aside(self, pooled: PooledBoard, reason: str) -> bool:
        """Drop a board for the rest of the run, if there is another; return whether it is dropped.

        Its worker process and session have ended when this returns, so other clients can use the board.
        """
        with self._changed:
            if pooled.aside:
                return True
            if not self._another(pooled):
                return False
            pooled.aside = True
            if pooled in self._free:
                self._free.remove(pooled)
        self._notice(f"board {pooled.board.name} is put aside for the rest of the run: {reason}")
        pooled.worker.close()
        return True

    @contextmanager
    def tracker(self) -> Iterator[TrackerClient]:
        """Yield a connection to the tracker; `close` cuts it.

        Raises
        ------
        ToolchainError
            The tracker does not answer, or the run is ending.
        """
        with TrackerClient(self._lab.host, self._lab.port) as client:
            with self._changed:
                self._check_open()
                self._asking.add(client)
            try:
                yield client
            finally:
                with self._changed:
                    self._asking.discard(client)

    def close(self) -> None:
        """End the worker processes, and wake the threads that wait for a board or the tracker."""
        with self._changed:
            self._closed = True
            for client in self._asking:
                client.cut()
            self._changed.notify_all()
        for pooled in self.all:
            pooled.worker.end()
        if self._revival:
            self._revival.close()

    def _take(self) -> PooledBoard:
        while True:
            pooled = self._next()
            try:
                port = self._server_port(pooled)
            except BaseException:
                self._put_back(pooled)
                raise
            if port:
                pooled.port = port
                self._take_in(pooled)
                return pooled
            self.leave_out(pooled, "the lab has no server for it")
            self._put_back(pooled)

    def _another(self, pooled: PooledBoard) -> bool:
        """Whether another board can be used."""
        return any(other.away is None and not other.aside for other in self.all if other is not pooled)

    def _put_back(self, pooled: PooledBoard) -> None:
        with self._changed:
            if not pooled.aside:
                self._free.append(pooled)
            self._changed.notify()

    def _check_open(self) -> None:
        if self._closed:
            raise ToolchainError("the run is ending", "what was measured is kept: run it again")

    def _next(self) -> PooledBoard:
        """Wait for a board that is free and whose pause is over."""
        with self._changed:
            while True:
                self._check_open()
                self._check_some_there()
                now = time.monotonic()
                # Boards that were reachable last time come first.
                ready = sorted((s for s in self._free if s.not_before <= now), key=lambda s: bool(s.away))
                if ready:
                    self._free.remove(ready[0])
                    return ready[0]
                self._changed.wait(min((s.not_before - now for s in self._free), default=1.0))

    def _check_some_there(self) -> None:
        reviving = self._revival is not None and self._revival.at_work
        if reviving or any(pooled.away is None and not pooled.aside for pooled in self.all):
            self._some_there = time.monotonic()
        elif time.monotonic() - self._some_there > ALL_AWAY_S:
            reasons = "; ".join(f"{pooled.board.name}: {pooled.away}" for pooled in self.all)
            raise ToolchainError(
                f"no board could be reached for {ALL_AWAY_S:g} s: {reasons}",
                "`toolchain lab status` and `toolchain board status` show why; what was measured is kept",
            )

    def _server_port(self, pooled: PooledBoard) -> int:
        with self.tracker() as tracker:
            return tracker.boards(pooled.board.tracker_key).get(pooled.board.name, 0)

    def _take_in(self, pooled: PooledBoard) -> None:
        if pooled.away is not None:
            self._notice(f"board {pooled.board.name} is back")
        pooled.away = None

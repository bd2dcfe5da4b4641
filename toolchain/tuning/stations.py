"""The boards of a run, each with a worker of its own; those that are away are left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from toolchain.boards.board import Board
from toolchain.errors import ToolchainError
from toolchain.processes.worker import Worker
from toolchain.rpc.client import TrackerClient
from toolchain.rpc.lab import Lab

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_SETTLE_S = 0.3  # until the tracker knows that a server has gone; one that was killed is back no sooner
# So long a run waits while no board is there: one that reboots takes up to a minute and a half.
ALL_AWAY_S = 180.0


class BoardLostError(Exception):
    """The board went away or hangs: that says nothing about what it was to measure."""


@dataclass
class Station:
    """A board, and the process of this host that talks to it.

    Attributes
    ----------
    port
        Where its server was found last; a server that is started anew has another.
    away
        Why it is left out; None while it is not.
    """

    board: Board
    worker: Worker = field(default_factory=Worker)
    port: int = 0
    away: str | None = None
    pause_s: float = _FIRST_PAUSE_S
    not_before: float = 0.0

    @property
    def key(self) -> str:
        """What the tracker calls this very board."""
        return f"{self.board.tracker_key}@{self.board.name}"


class Stations:
    """Hands each station to one thread at a time.

    Parameters
    ----------
    notice
        Told when a board is left out and when it is taken in again.
    """

    def __init__(self, boards: Sequence[Board], lab: Lab, notice: Callable[[str], None]) -> None:
        self.all = [Station(board) for board in boards]
        self._lab = lab
        self._notice = notice
        self._free = list(self.all)
        self._changed = threading.Condition()
        self._asking: set[TrackerClient] = set()
        self._closed = False
        self._some_there = time.monotonic()

    @contextmanager
    def taken(self) -> Iterator[Station]:
        """Yield a station whose board is there; a `BoardLostError` inside leaves it out for a while.

        Raises
        ------
        ToolchainError
            No board has been there for `ALL_AWAY_S`.
        """
        station = self._take()
        try:
            yield station
        except BoardLostError as error:
            self._leave_out(station, str(error))
            raise
        finally:
            self._put_back(station)

    def lost(self, station: Station) -> bool:
        """Whether the server has gone that the station was taken with."""
        if self._server_port(station) == station.port:
            time.sleep(_SETTLE_S)
        return self._server_port(station) != station.port

    @contextmanager
    def tracker(self) -> Iterator[TrackerClient]:
        """Yield a connection to the tracker, which `close` cuts.

        Raises
        ------
        ToolchainError
            The tracker does not answer, or the run ends.
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
        """End the workers, and whatever threads wait for here."""
        with self._changed:
            self._closed = True
            for client in self._asking:
                client.cut()
            self._changed.notify_all()
        for station in self.all:
            station.worker.end()

    def _take(self) -> Station:
        while True:
            station = self._next()
            try:
                port = self._server_port(station)
            except BaseException:
                self._put_back(station)
                raise
            if port:
                station.port = port
                self._take_in(station)
                return station
            self._leave_out(station, "the lab has no server of it")
            self._put_back(station)

    def _put_back(self, station: Station) -> None:
        with self._changed:
            self._free.append(station)
            self._changed.notify()

    def _check_open(self) -> None:
        if self._closed:
            raise ToolchainError("the run ends", "what was measured is kept: run it again")

    def _next(self) -> Station:
        """Wait for a station that is free and may be tried."""
        with self._changed:
            while True:
                self._check_open()
                self._check_some_there()
                now = time.monotonic()
                # Those that were there a moment ago first.
                ready = sorted((s for s in self._free if s.not_before <= now), key=lambda s: bool(s.away))
                if ready:
                    self._free.remove(ready[0])
                    return ready[0]
                self._changed.wait(min((s.not_before - now for s in self._free), default=1.0))

    def _check_some_there(self) -> None:
        if any(station.away is None for station in self.all):
            self._some_there = time.monotonic()
        elif time.monotonic() - self._some_there > ALL_AWAY_S:
            reasons = "; ".join(f"{station.board.name}: {station.away}" for station in self.all)
            raise ToolchainError(
                f"no board was there for {ALL_AWAY_S:g} s: {reasons}",
                "`toolchain lab status` and `toolchain board status` show why; what was measured is kept",
            )

    def _server_port(self, station: Station) -> int:
        with self.tracker() as tracker:
            return tracker.boards(station.board.tracker_key).get(station.board.name, 0)

    def _leave_out(self, station: Station, reason: str) -> None:
        if station.away is None and not self._closed:
            self._notice(f"board {station.board.name} is away: {reason}")
            station.pause_s = _FIRST_PAUSE_S
        station.away = station.away or reason
        station.not_before = time.monotonic() + station.pause_s
        station.pause_s = min(2 * station.pause_s, _LONGEST_PAUSE_S)

    def _take_in(self, station: Station) -> None:
        if station.away is not None:
            self._notice(f"board {station.board.name} is there again")
        station.away = None

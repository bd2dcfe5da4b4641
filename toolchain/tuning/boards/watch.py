"""Drops boards that mislead the search and pauses those that overheat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.health import Health
from toolchain.tuning.boards.pool import BoardLostError, BoardPool, PooledBoard
from toolchain.tuning.boards.speed import Speed


class Watch:
    """Judges the boards of a pool by what they measure and by a reference kernel.

    Parameters
    ----------
    read
        Times the reference kernel on a board; raises `BoardLostError`.
    used_s
        Seconds for which each board had a session so far, by its name.
    notice
        Called with what is wrong with a board that is kept because it is the only one.
    """

    def __init__(
        self,
        pool: BoardPool,
        read: Callable[[PooledBoard], Result],
        used_s: Mapping[str, float],
        notice: Callable[[str], None],
    ) -> None:
        names = [pooled.board.name for pooled in pool.all]
        self._pool, self._read, self._used_s, self._notice = pool, read, used_s, notice
        self._health, self._speed = Health(names), Speed(names)
        self._told: set[str] = set()
        self._ports: dict[str, int] = {}

    def read(self, pooled: PooledBoard) -> Result:
        """Time the reference kernel and store the reading for `judge`; a failure is only returned."""
        name = pooled.board.name
        before = self._used_s[name]
        reading = self._read(pooled)
        if not reading.failure:
            self._speed.note(name, reading, self._used_s[name] - before, self._used_s[name])
        return reading

    def due(self, pooled: PooledBoard) -> bool:
        """Whether the reference kernel should be timed on a board now."""
        return not pooled.aside and self._speed.due(pooled.board.name, self._used_s[pooled.board.name])

    def judge(self, pooled: PooledBoard) -> bool:
        """Judge a board by its last readings; return whether it may be used now."""
        complaint = self._speed.complaint(pooled.board.name)
        if complaint is None:
            return True
        if not complaint.hot:
            # An emulated board is as fast as its host, so a single one gets no notice.
            return not self._put_aside(pooled, complaint.reason, tell=not pooled.board.emulated)
        if self._pool.let_cool(pooled, complaint.reason):
            self._speed.ask_again(pooled.board.name)
            return False
        self._tell(pooled, complaint.reason)
        return True

    def fit(self, pooled: PooledBoard) -> bool:
        """Return whether a board that we hold may measure now; time a known-good kernel first, if it is due.

        Raises
        ------
        BoardLostError
            The board went away.
        """
        if self._ports.setdefault(pooled.board.name, pooled.port) != pooled.port:
            # Its server was restarted; perhaps the board rebooted, and runs at another clock rate.
            self._ports[pooled.board.name] = pooled.port
            self._speed.ask_again(pooled.board.name)
        if not self.due(pooled):
            return True
        try:
            reading = self.read(pooled)
            if reading.failure:  # one failure may be chance: a session killed for lack of memory, for example
                reading = self.read(pooled)
        except BoardLostError as error:
            self.lost(pooled, str(error))
            raise
        if reading.failure:
            reason = f"a known-good kernel fails there: {reading.failure}: {reading.message}"
            return not self._put_aside(pooled, reason)
        return self.judge(pooled)

    def measured(self, pooled: PooledBoard, results: Sequence[Result]) -> None:
        """Judge a board by what it measured."""
        if complaint := self._health.complaint(pooled.board.name, results):
            self._put_aside(pooled, complaint)

    def lost(self, pooled: PooledBoard, reason: str) -> bool:
        """Judge a board that went away during a measurement; return whether it is dropped."""
        self._speed.ask_again(pooled.board.name)
        complaint = self._health.loss(pooled.board.name)
        return complaint is not None and self._put_aside(pooled, f"{complaint}; the last time: {reason}")

    def _put_aside(self, pooled: PooledBoard, reason: str, *, tell: bool = True) -> bool:
        if not self._pool.put_aside(pooled, reason):
            if tell:
                self._tell(pooled, reason)
            return False
        self._speed.forget(pooled.board.name)
        return True

    def _tell(self, pooled: PooledBoard, reason: str) -> None:
        """Notify the user of a misleading board, once."""
        if pooled.board.name not in self._told:
            self._told.add(pooled.board.name)
            self._notice(f"board {pooled.board.name} may mislead, but there is no other: {reason}")

"""Watches the boards of a run: one that is worse than the others is done without, or cools down."""

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
        For how long each board had a session until now, by its name.
    notice
        Told what is wrong with a board that cannot be done without.
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
        """Time the reference kernel, for `judge`; where it fails, that alone is the answer."""
        name = pooled.board.name
        before = self._used_s[name]
        reading = self._read(pooled)
        if not reading.failure:
            self._speed.note(name, reading, self._used_s[name] - before, self._used_s[name])
        return reading

    def due(self, pooled: PooledBoard) -> bool:
        """Whether the reference kernel is to be timed on a board now."""
        return not pooled.aside and self._speed.due(pooled.board.name, self._used_s[pooled.board.name])

    def judge(self, pooled: PooledBoard) -> bool:
        """Judge a board that was read; return whether it may be used now."""
        complaint = self._speed.complaint(pooled.board.name)
        if complaint is None:
            return True
        if not complaint.hot:
            # The times of an emulated board are its host's: alone it is not worth a word.
            return not self._put_aside(pooled, complaint.reason, tell=not pooled.board.emulated)
        if self._pool.let_cool(pooled, complaint.reason):
            self._speed.ask_again(pooled.board.name)
            return False
        self._tell(pooled, complaint.reason)
        return True

    def fit(self, pooled: PooledBoard) -> bool:
        """Look at a board that was taken, if it is time to; return whether it may be used now.

        Raises
        ------
        BoardLostError
            It went away.
        """
        if self._ports.setdefault(pooled.board.name, pooled.port) != pooled.port:
            # Its server was started anew: the board, too, maybe, and with another clock.
            self._ports[pooled.board.name] = pooled.port
            self._speed.ask_again(pooled.board.name)
        if not self.due(pooled):
            return True
        try:
            reading = self.read(pooled)
            if reading.failure:  # once may be the end of a session that was killed, for want of memory say
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
        """Judge a board that went away under a measurement; return whether it is done without."""
        self._speed.ask_again(pooled.board.name)
        complaint = self._health.loss(pooled.board.name)
        return complaint is not None and self._put_aside(pooled, f"{complaint}; at last: {reason}")

    def _put_aside(self, pooled: PooledBoard, reason: str, *, tell: bool = True) -> bool:
        if not self._pool.put_aside(pooled, reason):
            if tell:
                self._tell(pooled, reason)
            return False
        self._speed.forget(pooled.board.name)
        return True

    def _tell(self, pooled: PooledBoard, reason: str) -> None:
        """Say once what is wrong with a board."""
        if pooled.board.name not in self._told:
            self._told.add(pooled.board.name)
            self._notice(f"board {pooled.board.name} may mislead, and there is no other: {reason}")

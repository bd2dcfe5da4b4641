"""Drops boards that mislead the search and pauses those that overheat."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median, pstdev

from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.pool import BoardLostError, BoardPool, PooledBoard
from toolchain.tuning.boards.speed import Speed

# Finds boards whose measurements mislead: they fail, vary or go away far more than the others.
#
# A board is compared with the others of the same run, never with a constant: in a hard space candidates
# fail on every board, and on a busy host the times of every board vary.

# Number of a board's last results that count. If half of all candidates fail, 16 failures in a row happen by
# chance once in 65 000 times.
_WINDOW = 16
_FEW_FAIL = 0.25  # a board that always fails is to blame if at most this share fails on another board
_SPREAD = 0.5  # standard deviation of repeats over their mean; a board with a steady clock has 0.01 to 0.1
_TIMES_OTHERS = 5.0
_LOSSES = 3  # in `_WINDOW` measurements, while another board had none; a touched cable causes fewer


class Health:
    """The last results of each board of a run.

    Parameters
    ----------
    names
        Names of the boards.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._results: dict[str, deque[Result]] = {name: deque(maxlen=_WINDOW) for name in names}
        self._losses: dict[str, deque[bool]] = {name: deque(maxlen=_WINDOW) for name in names}
        self._lock = threading.Lock()

    def complaint(self, name: str, results: Sequence[Result]) -> str | None:
        """Add results of a board; return what is wrong with the board, None if nothing is."""
        with self._lock:
            own = self._results[name]
            own.extend(results)
            self._losses[name].extend(False for _ in results)
            others = [seen for other, seen in self._results.items() if other != name and len(seen) == _WINDOW]
            if len(own) < _WINDOW or not others:
                return None
            return _failing(own, others) or _unsteady(own, others)

    def loss(self, name: str) -> str | None:
        """Note that a board went away during a measurement; return what is wrong with it, or None."""
        with self._lock:
            own = self._losses[name]
            own.append(True)
            # If every board goes away now and then, candidates are to blame.
            steady = any(seen and not any(seen) for other, seen in self._losses.items() if other != name)
            if own.count(True) < _LOSSES or not steady:
                return None
            return f"it went away {own.count(True)} times in {len(own)} measurements, another board never did"


def _failing(own: Sequence[Result], others: Sequence[Sequence[Result]]) -> str | None:
    if not all(result.failure for result in own):
        return None
    share = min(fmean(bool(result.failure) for result in seen) for seen in others)
    if share > _FEW_FAIL:
        return None
    last = own[-1]
    return (
        f"all of its last {_WINDOW} candidates failed, but only {share:.0%} of another board's; "
        f"the last: {last.failure}: {last.message}"
    )


def _unsteady(own: Sequence[Result], others: Sequence[Sequence[Result]]) -> str | None:
    spread = _spread(own)
    least = min((_spread(seen) or 0.0) for seen in others)
    if spread is None or spread < _SPREAD or spread < _TIMES_OTHERS * least:
        return None
    return f"its repeats vary by {spread:.0%} of their mean, those of another board by {least:.0%}"


def _spread(results: Sequence[Result]) -> float | None:
    """Return the median over results of the repeats' relative spread; None if most have no repeats."""
    spreads = [
        pstdev(result.run_ms) / result.mean_ms
        for result in results
        if not result.failure and len(result.run_ms) > 1
    ]
    return median(spreads) if len(spreads) > len(results) / 2 else None


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

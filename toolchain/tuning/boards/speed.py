"""Compares the speed of a run's boards by timing a reference kernel now and then.

A reading is the minimum over several repeats: other work on a core makes a repeat longer, never shorter. A
host that emulates several boards slows all of them, so boards are compared with each other: for a suspected
board, the best of three readings is compared with the worst of the others', which are read again for that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from toolchain.tasks.tuner import Result

REPEATS = 5
"""Repeats of a reading, which takes 0.1 s; on a GPU, whose clock rises while it works, 1.5 s."""
_LEAST_REPEAT_MS = 20

IN_A_ROW = 3
"""Number of bad readings in a row after which a board is complained about."""

# The next reading is due after the board was used for this many times the duration of the last. With two more
# readings for a suspicion, and three for a suspicion of another board, readings take at most 2 % of the time.
_USE_PER_READING = 200
# Boards of a class have the same cores: one that takes 1.5 times as long is slowed by its governor, its power
# supply or other work, and by more than the difference between candidates.
_FAR = 1.5
# Clocks fall by about this factor when a board throttles: 1.8 to 1.2 GHz, 1.5 to 1 GHz.
_SLOWED = 1.5
# Temperature at which boards begin to throttle: an RK3399 at 70 degrees Celsius (the first passive trip of
# Linux's device tree), a Raspberry Pi at 80 (its documentation on frequency management).
_HOT_C = 70.0
# Limit for a hot board; it is lower, since the temperature explains it and the board is only paused.
_HOT_SLOWED = 1.2


@dataclass(frozen=True)
class Complaint:
    """A reason to distrust a board's speed.

    Attributes
    ----------
    hot
        Whether the board is slow because it is hot, which passes.
    """

    reason: str
    hot: bool = False


@dataclass
class _Board:
    """The readings of one board, in ms.

    Attributes
    ----------
    number
        Number of the last reading, counted over all boards.
    doubts
        How many of the last readings in a row were bad.
    since
        How many readings all boards had when the last bad one was noticed: later readings of the others can
        be compared with the next one of this board.
    due_s
        The board is read again after this many seconds of use.
    """

    first: float = 0.0
    last: deque[float] = field(default_factory=lambda: deque(maxlen=IN_A_ROW))
    temperature_c: float | None = None
    number: int = 0
    doubts: int = 0
    since: int = 0
    due_s: float = 0.0


def repeat_ms(candidates_ms: int) -> int:
    """Return how long a reading's repeats are: as candidates' samples, but never so short as to be noise."""
    return max(_LEAST_REPEAT_MS, candidates_ms)


class Speed:
    """The readings of a run's boards.

    Parameters
    ----------
    names
        Names of the boards.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._boards = {name: _Board() for name in names}
        self._count = 0
        self._lock = threading.Lock()

    def due(self, name: str, used_s: float) -> bool:
        """Whether a board should be read now, after `used_s` seconds of use in total."""
        with self._lock:
            own = self._boards.get(name)
            if own is None:
                return False
            doubtful = [board for board in self._boards.values() if board.doubts]
            return used_s >= own.due_s or any(board is own or own.number <= board.since for board in doubtful)

    def note(self, name: str, reading: Result, took_s: float, used_s: float) -> None:
        """Store a reading.

        Parameters
        ----------
        took_s
            Seconds that the reading took on the board.
        used_s
            Seconds that the board was in use in total.
        """
        with self._lock:
            own = self._boards[name]
            self._count += 1
            own.number = self._count
            own.last.append(min(reading.run_ms))
            own.first = own.first or own.last[-1]
            own.temperature_c = reading.temperature_c
            own.due_s = used_s + _USE_PER_READING * took_s

    def complaint(self, name: str) -> Complaint | None:
        """Return what is wrong with a board that was just read; None if nothing is, or it is unsure."""
        with self._lock:
            own = self._boards[name]
            others = [board for board in self._boards.values() if board is not own and board.last]
            latest = [board.last[-1] for board in others]
            if not own.last or _wrong(own, own.last[-1], others, latest) is None:
                own.doubts = 0
                return None
            own.doubts, own.since = own.doubts + 1, self._count
            if own.doubts < IN_A_ROW:
                return None
            own.doubts = 0
            return _wrong(own, min(own.last), others, [max(board.last) for board in others])

    def forget(self, name: str) -> None:
        """Remove a dropped board from all comparisons."""
        with self._lock:
            self._boards.pop(name, None)

    def ask_again(self, name: str) -> None:
        """Make a reading of a board due at once, because it cooled down or went away."""
        with self._lock:
            if name in self._boards:
                self._boards[name].due_s = 0.0


def _wrong(own: _Board, ms: float, others: Sequence[_Board], theirs_ms: Sequence[float]) -> Complaint | None:
    """Compare a board's reading with one reading of each other board; return a complaint, or None."""
    far = ms / median(theirs_ms) if others else 1.0
    # If the others became slower, too, this board is not to blame; nor if they became faster.
    theirs = [their_ms / board.first for board, their_ms in zip(others, theirs_ms, strict=True)]
    slowed = ms / own.first / max([1.0, median(theirs)] if others else [1.0])
    degrees = own.temperature_c
    since = f"the reference kernel takes {ms / own.first:.1f} times as long as at the beginning"
    beside = f"the reference kernel takes {far:.1f} times as long as on the other boards"
    if degrees is not None and degrees >= _HOT_C and max(far, slowed) >= _HOT_SLOWED:
        said = since if slowed >= _HOT_SLOWED else beside
        return Complaint(f"it is at {degrees:.0f} °C, and {said}", hot=True)
    # The other boards decide, if there are any: the first reading of this board is only one reading, and
    # boards that share a host disturb each other.
    if (far < _FAR) if others else (slowed < _SLOWED):
        return None
    if slowed < _SLOWED:
        return Complaint(beside)
    why = "it is hot or busy" if degrees is None else "it is busy, or its clock was lowered"
    return Complaint(f"{since}: {why}")

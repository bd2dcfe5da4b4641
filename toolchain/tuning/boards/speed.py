"""How fast the boards of a run are, told by a reference kernel that is timed now and then.

A reading is the least of several repeats: other work on a core makes a repeat longer, never shorter. A host
that plays several boards slows all of them, so boards are compared with each other: of a board in doubt the
best of three readings is held against the worst of the others', which are read anew for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from toolchain.tasks.tuner import Result

REPEATS, MIN_REPEAT_MS = 5, 20  # of a reading: a tenth of a second, in repeats as long as those of candidates

IN_A_ROW = 3
"""Readings until a doubt is a complaint."""

# A reading for so many times its own duration of use. With two more that a doubt takes, and the three that
# a doubt about another takes, readings are 2 % of a board's time at most.
_USE_PER_READING = 200
# Boards of a class have the same cores: where one takes half as long again, its governor, its supply or other
# work slows it, and by more than what the choices of a task differ by.
_FAR = 1.5
# The steps by which clocks fall when a board throttles are of that size: 1.8 to 1.2 GHz, 1.5 to 1 GHz.
_SLOWED = 1.5
# Where boards begin to throttle: an RK3399 at 70 degrees Celsius (the first passive trip of Linux's device
# tree), a Raspberry Pi at 80 (its documentation on frequency management).
_HOT_C = 70.0
# Of one that is that hot, less is enough: the temperature says why, and it is left out for a while only.
_HOT_SLOWED = 1.2


@dataclass(frozen=True)
class Complaint:
    """What is wrong with a board's speed.

    Attributes
    ----------
    hot
        It is slow because it is hot, which passes.
    """

    reason: str
    hot: bool = False


@dataclass
class _Board:
    """Readings in milliseconds.

    Attributes
    ----------
    number
        Of the last one, counted over all boards.
    doubts, since
        How many of the last ones in a row were bad; and how many readings there were when that was seen: what
        the others show later is of the same time as the next of this board.
    due_s
        Of its use, when it is read next.
    """

    first: float = 0.0
    last: deque[float] = field(default_factory=lambda: deque(maxlen=IN_A_ROW))
    temperature_c: float | None = None
    number: int = 0
    doubts: int = 0
    since: int = 0
    due_s: float = 0.0


class Speed:
    """The readings of a run's boards.

    Parameters
    ----------
    names
        Of the boards.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._boards = {name: _Board() for name in names}
        self._count = 0
        self._lock = threading.Lock()

    def due(self, name: str, used_s: float) -> bool:
        """Whether a board is to be read now, that was in use for so many seconds in all."""
        with self._lock:
            own = self._boards.get(name)
            if own is None:
                return False
            doubtful = [board for board in self._boards.values() if board.doubts]
            return used_s >= own.due_s or any(board is own or own.number <= board.since for board in doubtful)

    def note(self, name: str, reading: Result, took_s: float, used_s: float) -> None:
        """Take note of a reading.

        Parameters
        ----------
        took_s
            For how long it had the board.
        used_s
            For how long the board was in use in all.
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
        """Return what is wrong with a board that was read just now; None: nothing, or nothing yet."""
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
        """Leave a board out of all comparisons: it is done without."""
        with self._lock:
            self._boards.pop(name, None)

    def ask_again(self, name: str) -> None:
        """Have a board read before it is used again: it was left to cool down, or went away."""
        with self._lock:
            if name in self._boards:
                self._boards[name].due_s = 0.0


def _wrong(own: _Board, ms: float, others: Sequence[_Board], theirs_ms: Sequence[float]) -> Complaint | None:
    """Return what is wrong with a board of which a reading is held against one of each other board."""
    far = ms / median(theirs_ms) if others else 1.0
    # What slowed the others down, too, is no fault of this one; that they got faster, neither.
    theirs = [their_ms / board.first for board, their_ms in zip(others, theirs_ms, strict=True)]
    slowed = ms / own.first / max([1.0, median(theirs)] if others else [1.0])
    degrees = own.temperature_c
    since = f"the reference kernel takes {ms / own.first:.1f} times as long as at the beginning"
    beside = f"the reference kernel takes {far:.1f} times as long as on the other boards"
    if degrees is not None and degrees >= _HOT_C and max(far, slowed) >= _HOT_SLOWED:
        said = since if slowed >= _HOT_SLOWED else beside
        return Complaint(f"it has {degrees:.0f} °C, and {said}", hot=True)
    # With others, they decide: a beginning is one reading, and the boards of one host disturb each other.
    if (far < _FAR) if others else (slowed < _SLOWED):
        return None
    if slowed < _SLOWED:
        return Complaint(beside)
    why = "it is hot or busy" if degrees is None else "it is busy, or its clock was lowered"
    return Complaint(f"{since}: {why}")

"""Finds boards whose measurements mislead: they fail, vary or go away far more than the others.

A board is compared with the others of the same run, never with a constant: in a hard space candidates fail on
every board, and on a busy host the times of every board vary.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from statistics import fmean, median, pstdev

from toolchain.tasks.tuner import Result

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

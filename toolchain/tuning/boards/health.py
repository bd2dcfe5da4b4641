"""Which boards of a run are worse than the others: what they measure would only mislead.

A board is compared with the others of its class in the same run, never with a number: on a hard space
everybody fails, and on a busy host everybody's times vary.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from statistics import fmean, median, pstdev

from toolchain.tasks.tuner import Result

# Of a board's results, the last. By chance a board fails so often in a row, where half of all candidates
# do, once in 65 000 times.
_WINDOW = 16
_FEW_FAIL = 0.25  # share of the others' candidates that fail, where a board is to blame that fails always
_SPREAD = 0.5  # standard deviation of repeats over their mean; a board with a steady clock has 0.01 to 0.1
_TIMES_OTHERS = 5.0
_LOSSES = 3  # among as many measurements, where another board had none: so often is no cable that was touched


class Health:
    """What the boards of a run have shown.

    Parameters
    ----------
    names
        Of the boards.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._results: dict[str, deque[Result]] = {name: deque(maxlen=_WINDOW) for name in names}
        self._losses: dict[str, deque[bool]] = {name: deque(maxlen=_WINDOW) for name in names}
        self._lock = threading.Lock()

    def complaint(self, name: str, results: Sequence[Result]) -> str | None:
        """Take note of results of a board; return what is wrong with it, None for nothing."""
        with self._lock:
            own = self._results[name]
            own.extend(results)
            self._losses[name].extend(False for _ in results)
            others = [seen for other, seen in self._results.items() if other != name and len(seen) == _WINDOW]
            if len(own) < _WINDOW or not others:
                return None
            return _failing(own, others) or _unsteady(own, others)

    def loss(self, name: str) -> str | None:
        """Take note that a board went away under a measurement; return what is wrong with it."""
        with self._lock:
            own = self._losses[name]
            own.append(True)
            # What boards do not survive is a candidate's fault: then they all go away.
            steady = any(seen and not any(seen) for other, seen in self._losses.items() if other != name)
            if own.count(True) < _LOSSES or not steady:
                return None
            return f"it went away {own.count(True)} times within {len(own)} measurements, and another did not"


def _failing(own: Sequence[Result], others: Sequence[Sequence[Result]]) -> str | None:
    if not all(result.failure for result in own):
        return None
    share = min(fmean(bool(result.failure) for result in seen) for seen in others)
    if share > _FEW_FAIL:
        return None
    last = own[-1]
    return (
        f"all of its last {_WINDOW} candidates failed, of another board's {share:.0%}; "
        f"at last: {last.failure}: {last.message}"
    )


def _unsteady(own: Sequence[Result], others: Sequence[Sequence[Result]]) -> str | None:
    spread = _spread(own)
    least = min((_spread(seen) or 0.0) for seen in others)
    if spread is None or spread < _SPREAD or spread < _TIMES_OTHERS * least:
        return None
    return f"its repeats vary by {spread:.0%} of their mean, those of another board by {least:.0%}"


def _spread(results: Sequence[Result]) -> float | None:
    """Return the median over results of how their repeats vary; None where most have none."""
    spreads = [
        pstdev(result.run_ms) / result.mean_ms
        for result in results
        if not result.failure and len(result.run_ms) > 1
    ]
    return median(spreads) if len(spreads) > len(results) / 2 else None

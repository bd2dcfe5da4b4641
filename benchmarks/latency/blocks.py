"""Contenders take turns, a block of inferences each.

Never inference by inference: the pools of two engines that both spin would take each other's CPUs. The
pause lets the last one's threads fall asleep.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

PAUSE_S = 0.05
Block = Callable[[int, float], list[float]]


def alternate(
    blocks: Mapping[str, Block],
    rounds: int,
    runs: int,
    seconds: float,
    failed: Callable[[str, Exception], None],
    pause: Callable[[], None] = lambda: time.sleep(PAUSE_S),
) -> dict[str, list[float]]:
    """Return the milliseconds of each contender's inferences.

    Parameters
    ----------
    blocks
        Runs a block of up to so many inferences in about so many seconds.
    rounds
        Blocks of each. Each round begins with another contender.
    failed
        Told of a contender that raises; it takes no more turns, and has no times.
    """
    times: dict[str, list[float]] = {name: [] for name in blocks}
    for turn in range(rounds):
        order = list(times)
        first = turn % max(1, len(order))
        for name in order[first:] + order[:first]:
            pause()
            try:
                times[name] += blocks[name](runs, seconds)
            except Exception as error:
                del times[name]
                failed(name, error)
    return times


def summary(times: list[float]) -> dict[str, float]:
    """Return minimum, median and number of inferences."""
    return {
        "min_ms": round(min(times), 4),
        "median_ms": round(statistics.median(times), 4),
        "runs": len(times),
    }

"""Whole runs of a network, replayed: what schedulers bring, and what early stopping saves."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.tuners.replay import BATCH, Table
from toolchain.tasks.backend import MakeTuner
from toolchain.tuning.schedulers.scheduler import MakeScheduler, Prospect, Turn

_DEPTH = 3  # turns under way, as in `tuning.pipeline`


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes
    ----------
    ms
        Of the network: the best of every task, as often as the network computes it.
    """

    trials: int
    ms: float


def run(
    spaces: Sequence[Table],
    make: MakeScheduler,
    make_tuner: MakeTuner[Any],
    trials: int,
    patience: int | None,
    seed: int,
) -> Outcome:
    """Tune a network; what tuners propose is answered from the tables."""
    best = [space.times[0] for space in spaces]
    scheduler = make(
        trials,
        [Prospect(space.task.weight, space.times[0], len(space.times) - 1) for space in spaces],
        patience,
    )
    tuners = [make_tuner(space.task, space, seed + place) for place, space in enumerate(spaces)]
    for tuner, space in zip(tuners, spaces, strict=True):
        tuner.learn([(space.default(), space.result(space.default()))])
    under_way: deque[tuple[Turn, Sequence[int]]] = deque()
    used = 0
    while True:
        while len(under_way) < _DEPTH and (turn := scheduler.next(BATCH)) is not None:
            under_way.append((turn, tuners[turn.task].propose(turn.trials)))
        if not under_way:
            break
        turn, points = under_way.popleft()
        space = spaces[turn.task]
        used += len(points)
        best[turn.task] = min([best[turn.task], *(space.times[point] for point in points)])
        scheduler.report(turn, len(points), best[turn.task])
        if points:
            tuners[turn.task].learn([(point, space.result(point)) for point in points])
    return Outcome(used, latency(spaces, best))


def latency(spaces: Sequence[Table], times: Sequence[float]) -> float:
    """Return what a network takes whose tasks take so long."""
    return sum(space.task.weight * ms for space, ms in zip(spaces, times, strict=True))


def outcome(
    spaces: Sequence[Table],
    make: MakeScheduler,
    make_tuner: MakeTuner[Any],
    trials: int,
    patience: int | None,
    seeds: int,
) -> Outcome:
    """Return the medians of runs with so many seeds."""
    made = [run(spaces, make, make_tuner, trials, patience, seed) for seed in range(1, seeds + 1)]
    return Outcome(int(median(one.trials for one in made)), median(one.ms for one in made))

"""Searches of a space whose points were all measured: what a tuner proposes is answered from a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from toolchain.records.store import Usable, anything
from toolchain.tasks.backend import MakeTuner
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import FiniteSpace, Foreign, Result, Tuner

BATCH = 8
NEAR = 1.05  # of the best time


@dataclass(frozen=True)
class Replayed(Task):
    """A task of a table."""

    @property
    def definition(self) -> str:
        """Its name."""
        return self.name


class Table(FiniteSpace[int]):
    """A space whose points are places in a table.

    Parameters
    ----------
    rows
        Decisions of each point.
    features
        Of each point.
    times
        Milliseconds of each point; infinite where it fails. The first is the default.
    weight
        How often the network computes it.
    """

    kinds: tuple[str, ...] = ("place",)
    excluded = ""
    points: range = range(0)

    def __init__(
        self,
        name: str,
        rows: Sequence[Mapping[str, Any]],
        features: Sequence[Sequence[float]],
        times: Sequence[float],
        weight: int = 1,
    ) -> None:
        self.usable: Usable = anything
        self.allowed: Usable = anything
        self.points = range(len(rows))
        self.rows, self.times, self._features = rows, times, features
        self.task = Replayed(name, name, weight, 1, ())

    @property
    def best(self) -> float:
        """The least time."""
        return min(self.times)

    def result(self, point: int) -> Result:
        """Return what came of a point."""
        time = self.times[point]
        return Result(failure="runtime") if time == inf else Result((time,))

    def legal(self, point: int) -> bool:
        """Whether there is such a place."""
        return point in self.points

    def decisions(self, point: int) -> Mapping[str, Any]:
        """Return the row."""
        return self.rows[point]

    def features(self, point: int) -> Sequence[float]:
        """Return the point's features."""
        return self._features[point]

    def foreign_features(self, entry: Entry, definition: str) -> Sequence[float]:
        """Return the features of another table's point, which its definition is."""
        del entry
        features: list[float] = json.loads(definition)
        return features

    def adapted(self, entry: Entry, definition: str) -> int | None:
        """Return the point with the most similar decisions."""
        del definition
        return self.nearest(decisions_of(entry))

    def foreign(self, points: Sequence[int]) -> list[Foreign]:
        """Return points as the store has them for others."""
        return [
            Foreign(self.entry(point), json.dumps(self.features(point)), self.result(point))
            for point in points
        ]

    def rule(self, point: int) -> str:
        """Return the place."""
        return str(point)

    def entry(self, point: int) -> Entry:
        """Return the decisions."""
        payload = json.dumps(self.rows[point])
        return Entry("place", payload, payload)

    def read(self, entry: Entry, definition: str) -> int:
        """Return the place of an entry of this table."""
        del definition
        return self.nearest(decisions_of(entry))

    def candidate(self, point: int) -> Candidate:
        """Refuse: nothing is built."""
        raise NotImplementedError(point)


def decisions_of(entry: Entry) -> dict[str, Any]:
    """Return the decisions that an entry holds."""
    decisions = json.loads(entry.payload)
    return {name: tuple(each) if isinstance(each, list) else each for name, each in decisions.items()}


Prepare = Callable[[Tuner[Any], Table, int], None]


def trials(
    space: Table, make: MakeTuner[Any], seed: int, limit: int, prepare: Prepare | None = None
) -> list[float]:
    """Return the best time after each trial, until `NEAR` the space's best or `limit` trials."""
    tuner = make(space.task, space, seed)
    if prepare is None:
        tuner.learn([(space.default(), space.result(space.default()))])
    else:
        prepare(tuner, space, seed)
    best, curve = inf, list[float]()
    while len(curve) < limit and (points := tuner.propose(BATCH)):
        for point in points:
            best = min(best, space.times[point])
            curve.append(best)
            if best <= NEAR * space.best:
                return curve
        tuner.learn([(point, space.result(point)) for point in points])
    return curve


def needed(
    space: Table, make: MakeTuner[Any], seeds: int, limit: int = 1 << 30, prepare: Prepare | None = None
) -> float:
    """Return the median number of trials until a point is near the best, over so many seeds."""
    return median(len(trials(space, make, seed, limit, prepare)) for seed in range(1, seeds + 1))


def tables(data: Path) -> list[Table]:
    """Return the tasks of a file that `measuring.collect` wrote."""
    found = []
    for task in json.loads(data.read_text()):
        rows = [
            {name: tuple(each) if isinstance(each, list) else each for name, each in row.items()}
            for row in task["decisions"]
        ]
        times = [inf if ms is None else ms for ms in task["ms"]]
        found.append(Table(task["task"], rows, task["features"], times, task["weight"]))
    return found

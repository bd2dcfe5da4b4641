"""The candidates that an export wants: defaults, what builds use today, and what tuners propose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from toolchain.errors import ToolchainError
from toolchain.records.record import RecordKey
from toolchain.records.store import RecordStore
from toolchain.tasks.backend import Network
from toolchain.tasks.candidate import Candidate, entry_of
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result, Space, Tuner
from toolchain.tuning.context import earlier_records
from toolchain.tuning.judging.confirm import result_of
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.experience import Experienced
from toolchain.tuning.schedulers.scheduler import Prospect, RoundRobin
from toolchain.tuning.tuners.table import tuner_for

_BATCH = 8


@dataclass(frozen=True)
class Wanted:
    """A candidate to export."""

    task: Task
    candidate: Candidate
    stage: Literal["default", "recorded", "search"]


@dataclass(frozen=True)
class SearchStart:
    """The objects that a search among the tasks of a network begins with.

    Attributes
    ----------
    keys
        Keys of the tasks' records, by workload.
    recorded
        Points that builds use today because of a record, by workload.
    """

    network: Network[Any]
    tasks: Sequence[Task]
    store: RecordStore
    options: TuneOptions
    keys: Mapping[str, RecordKey]
    recorded: Mapping[str, Any]


def proposals(search: SearchStart, options: TuneOptions) -> list[Wanted]:
    """Return at most `options.trials` candidates beside the defaults, those of all tasks in turn.

    A measurement that is cut short has then something of each task. Tuners learn what earlier runs measured,
    and nothing else: gridsearch proposes in its order, the others explore.
    """
    tasks = [_TaskSearch(search, task, place) for place, task in enumerate(search.tasks)]
    try:
        wanted = [each.default for each in tasks] + [one for each in tasks for one in each.recorded()]
        # Without measured times nothing says where trials save most, so each task gets as many.
        scheduler = RoundRobin(options.trials, [Prospect(each.task.weight, 1.0, None) for each in tasks])
        while turn := scheduler.next(_BATCH):
            new = tasks[turn.task].propose(turn.trials)
            wanted += new
            scheduler.report(turn, len(new), 1.0)
        return wanted
    finally:
        for each in tasks:
            each.close()


class _TaskSearch:
    def __init__(self, search: SearchStart, task: Task, place: int) -> None:
        network, options, self._search, self.task = search.network, search.options, search, task
        self._space: Space[Any] = network.space(task)
        tuner = tuner_for(network, task, self._space, options.tuner, options.search_seed + place)
        key = search.keys[task.workload]
        self._tuner: Tuner[Any] = tuner
        if not options.fresh:
            self._tuner = Experienced(tuner, self._space, key, search.store)
        self.default = Wanted(task, self._space.candidate(self._space.default()), "default")
        self._seen = {self.default.candidate.entry.digest}
        if not options.fresh:
            self._recall(key)

    def close(self) -> None:
        with closing(self._tuner):
            pass

    def recorded(self) -> list[Wanted]:
        point = self._search.recorded.get(self.task.workload)
        return [] if point is None else self._new([point], "recorded")

    def propose(self, count: int) -> list[Wanted]:
        while points := self._tuner.propose(count):
            if new := self._new(points, "search"):
                return new
        return []

    def _new(self, points: Sequence[Any], stage: Literal["recorded", "search"]) -> list[Wanted]:
        new = []
        for point in points:
            digest = self._space.entry(point).digest
            if digest not in self._seen:
                self._seen.add(digest)
                new.append(Wanted(self.task, self._space.candidate(point), stage))
        return new

    def _recall(self, key: RecordKey) -> None:
        """Teach the tuner what earlier runs measured, which is not exported again."""
        known: list[tuple[Any, Result]] = []
        store = self._search.store
        for record in earlier_records(store, key, self.task).values():
            try:
                point = self._space.read(entry_of(record), store.definition(record.function))
            except ToolchainError:
                continue  # it no longer applies
            known.append((point, result_of(record)))
            self._seen.add(record.digest)
        if known:
            self._tuner.learn(known)

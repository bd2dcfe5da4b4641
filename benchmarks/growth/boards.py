"""The tuning loop itself with many boards: schedulers, tuners, turns, records. Boards only wait here."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from toolchain.records.record import Provenance, RecordKey
from toolchain.records.sqlite import FILE_NAME
from toolchain.records.store import RecordStore
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.evaluator import BuiltCandidate, Evaluator
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.tuning.context import RunContext
from toolchain.tuning.run.pipeline import pipeline
from toolchain.tuning.schedulers.scheduler import Gradient, Prospect
from toolchain.tuning.task_run import TaskRun
from toolchain.tuning.tuners.table import GridSearch

_TRIALS, _TASKS, _WAYS = 1024, 32, 64
_TRIAL_S = 0.02


def rows(given: argparse.Namespace) -> Iterator[Mapping[str, str]]:
    """Yield a row for each number of boards, and then one for each number of tasks."""
    for boards in given.sizes:
        yield _row(boards, _TASKS)
    for tasks in (100, 300, 1000):
        yield _row(given.sizes[-1], tasks)


def _row(boards: int, tasks: int) -> Mapping[str, str]:
    trials = max(_TRIALS, 4 * tasks)
    with tempfile.TemporaryDirectory() as folder, RecordStore(Path(folder) / FILE_NAME) as store:
        evaluator = _Waiting(boards)
        context = RunContext(
            evaluator=Evaluator(cast(Any, evaluator), cast(Any, evaluator)),
            cases=cast(Any, evaluator),
            store=store,
            provenance=Provenance("run", "board", "0" * 64, "0", "0", "0"),
            listener=lambda _event: None,
            fresh=False,
            key_of=lambda workload: RecordKey(workload, "triple", "cpu", "level", 1, "class"),
        )
        made = [_Task(f"{number:016x}", "task", 1, 1_000_000, ((1,),)) for number in range(tasks)]
        spaces = [cast(Any, _Space(number)) for number in range(tasks)]
        begun = time.process_time()
        runs = [
            TaskRun(task, space, GridSearch(task, space, 1), context)
            for task, space in zip(made, spaces, strict=True)
        ]
        for run in runs:
            run.begin()
        defaults_s, begun = time.process_time() - begun, time.process_time()
        prospects = [Prospect(1, run.default_ms, run.left) for run in runs]
        with pipeline() as search:
            search.run(runs, Gradient(trials, prospects))
        searched_s = time.process_time() - begun
        evaluator.threads.shutdown()
        used = sum(run.trials for run in runs)
    return {
        "boards": str(boards),
        "tasks": str(tasks),
        "trials": str(used),
        "defaults, ms of each": f"{defaults_s / tasks * 1e3:.2f}",
        "search, ms of a trial": f"{searched_s / used * 1e3:.2f}",
    }


@dataclass(frozen=True)
class _Task(Task):
    @property
    def definition(self) -> str:
        return self.workload


class _Space:
    """As many ways as there are numbers; which is fastest depends on the task."""

    kinds, excluded, size = ("cpu",), "", _WAYS

    def __init__(self, task: int) -> None:
        self.task = task

    def default(self) -> int:
        return 0

    def point(self, index: int) -> int:
        return index

    def entry(self, point: int) -> Entry:
        return Entry("cpu", str(point), f"{self.task} {point}")

    def read(self, entry: Entry, definition: str) -> int:
        del definition
        return int(entry.payload)

    def candidate(self, point: int) -> Candidate:
        return Candidate(self.entry(point), cast(Any, None), (), 1)


class _Waiting:
    """Builds nothing; each board answers after a while."""

    names: Sequence[str] = ("board",)
    in_use_s: Mapping[str, float] = {}

    def __init__(self, boards: int) -> None:
        self.lanes = boards
        self.threads = ThreadPoolExecutor(boards)

    def of(self, _task: Task) -> tuple[()]:
        return ()

    def expect(self, task: Task, cases: object) -> None:
        del task, cases

    def build(self, candidates: Sequence[Candidate]) -> list[BuiltCandidate]:
        return [BuiltCandidate(candidate) for candidate in candidates]

    def run(self, _task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        return list(self.threads.map(self._measured, built))

    check = run

    @staticmethod
    def _measured(built: BuiltCandidate) -> Result:
        time.sleep(_TRIAL_S)
        return Result((1.0 + hash(built.candidate.entry.digest) % 100 / 100,), board="board")

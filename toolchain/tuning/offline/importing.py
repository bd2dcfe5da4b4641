"""`tune --import`: stores what a station measured, after the checks of a live run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

from toolchain.boards.board import Board
from toolchain.devices.device import CPU, device_key
from toolchain.errors import ToolchainError, UsageError
from toolchain.models.load import Model
from toolchain.records.record import Provenance, RecordKey
from toolchain.records.store import RecordStore
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend, Network
from toolchain.tasks.candidate import Case, Entry, record_key
from toolchain.tasks.evaluator import Evaluator
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Experience, P, Result
from toolchain.tuning.boards.devices import told
from toolchain.tuning.context import RunContext
from toolchain.tuning.events import Began, LeftOut, Listener, Notice, StepBegan
from toolchain.tuning.offline.about import About
from toolchain.tuning.offline.opened import OpenedFolder, open_folder
from toolchain.tuning.offline.results import FILE, impossible
from toolchain.tuning.offline.station import Station
from toolchain.tuning.options import OFFLINE, TuneOptions
from toolchain.tuning.plans.answers import possible_times
from toolchain.tuning.result import TunedTask, TuneResult
from toolchain.tuning.task_run import TaskRun

# A tuner that proposes the points of an exported folder.


class Listed(Generic[P]):
    """Proposes given points in their order, and learns nothing; see `tasks.tuner.Tuner`."""

    transfers = False

    def __init__(self, points: Sequence[P]) -> None:
        self._left = list(points)

    def propose(self, count: int) -> list[P]:
        """Return the next points."""
        proposed, self._left = self._left[:count], self._left[count:]
        return proposed

    def learn(self, measured: Sequence[tuple[P, Result]]) -> None:
        """Learn nothing."""

    def transfer(self, experience: Experience[P]) -> None:
        """Learn nothing."""

    def close(self) -> None:
        """Hold nothing."""


# Checks that the results of a station are possible, before one of them is stored.


def device_of(opened: OpenedFolder, kind: str) -> str:
    """Return the key of the device that measured; empty for a CPU.

    Raises
    ------
    UsageError
        Several devices measured, or none that has a name.
    """
    if kind == CPU:
        return ""
    names = {each.device for each in opened.results.values() if each.failure is None}
    if len(names) > 1:
        raise UsageError(
            f"{opened.folder}: several devices measured: {', '.join(sorted(names))}: what is fast on one "
            "says nothing about the other",
            "measure a copy of the folder on each",
        )
    if not names or names == {""}:
        raise UsageError(
            f"{opened.folder}: nothing was measured on a {kind} device that has a name", "measure again"
        )
    return device_key(kind, names.pop())


def results_of(
    opened: OpenedFolder,
    tasks: Sequence[Task],
    key_of: Callable[[str], RecordKey],
    board: str,
    target: BoardTarget,
) -> dict[tuple[str, str], Result]:
    """Return the results by the workload of a task and the digest of a point.

    Those that did not compile when they were exported are among them.

    Raises
    ------
    CheckError
        A time is not possible.
    """
    found = {}
    numbers = {digest: number for number, digest in enumerate(opened.results, 2)}  # of their lines
    by_workload = {task.workload: task for task in tasks}
    for candidate in opened.about.candidates:
        place = (candidate.task, candidate.point)
        if candidate.failure:
            found[place] = Result(failure=candidate.failure, message=candidate.message)
        elif measured := opened.results.get(candidate.digest):
            task = by_workload[candidate.task]
            limit_s = opened.plan.limit_s(candidate.digest)
            possible = possible_times(task, key_of(task.workload), target, opened.plan.samples, limit_s)
            if problem := measured.problem(possible):
                raise impossible(opened.folder / FILE, numbers[candidate.digest], problem)
            found[place] = measured.result(board, target.kind)
    return found


_NOT_COMPARED = (
    "builds use what an earlier run confirmed, or else the fastest measured ways; they were timed once, and "
    "not compared again in the network, as a run on a board that can be reached would do. `toolchain verify` "
    "and `toolchain bench` show there what they are worth"
)


class _NoCases:
    """Cases of a run that computes none; see `cases.ExpectedCases`."""

    def of(self, task: Task) -> tuple[Case, ...]:
        """Return none."""
        del task
        return ()


def import_results(
    model: Model,
    backend: Backend[Any],
    board: Board,
    store: RecordStore,
    options: TuneOptions,
    folder: Path,
    listener: Listener,
) -> TuneResult:
    """Store the results of an exported folder as records, all or none.

    Importing a folder again stores nothing new but the defaults' times.

    Raises
    ------
    UsageError
        The folder is of another version, target or model, or was changed.
    CheckError
        A result cannot be true.
    """
    begun = time.monotonic()
    target = backend.target(options.cluster, options.threads, integers=model.integral)
    opened = open_folder(folder, target, board)
    kind, station = target.kind, f"{OFFLINE} {board.name}"
    device = device_of(opened, kind)
    said = told(device, target.device) if device else None
    if device:
        target = replace(target, device=device)
    with ExitStack() as stack:
        listener(StepBegan("finding the tasks"))
        network = stack.enter_context(backend.lower(model, target))
        tasks = _tasks(network, opened)
        key_of = partial(_key, target, board)
        results = results_of(opened, tasks, key_of, station, target)
        runner = Station(station, results)
        context = RunContext(
            evaluator=Evaluator(runner, runner, device),
            cases=_NoCases(),
            store=store,
            provenance=_provenance(opened, station),
            listener=listener,
            fresh=options.fresh,
            key_of=key_of,
        )
        listener(Began(tuple(tasks), len(results)))
        taken = [_Taken.of(task, network, opened, results) for task in tasks]
        tuned = [tuned for each in taken if (tuned := each.store(context)) is not None]
    if not tuned:
        raise UsageError(
            f"{folder}: no task's default was measured, so no time says whether another is faster",
            f"measure longer: {folder}/edge-rt measure {folder}",
        )
    if said:
        listener(Notice(said))
    listener(Notice(_NOT_COMPARED))
    trials = sum(each.trials for each in tuned)
    result = TuneResult(tuned, time.monotonic() - begun, {station: trials}, run=context.provenance.run)
    listener(result.verdict)
    return result


def _key(target: BoardTarget, board: Board, workload: str) -> RecordKey:
    return record_key(workload, target, board.record_class)


def _tasks(network: Network[Any], opened: OpenedFolder) -> list[Task]:
    """Return the tasks of the folder, in the order of the network."""
    wanted = {each.task for each in opened.about.candidates}
    found = [task for task in network.tasks if task.workload in wanted]
    if missing := sorted(wanted - {task.workload for task in found}):
        raise UsageError(
            f"{opened.folder}: it has candidates of {opened.about.model}, and this network has no task "
            f"{missing[0][:8]}",
            "import it with the model and the options with which it was exported",
        )
    return found


def _provenance(opened: OpenedFolder, station: str) -> Provenance:
    versions = opened.about.versions
    return Provenance(
        run=opened.plan.digest[:32],
        board=station,
        runtime=versions.runtime,
        tvm=versions.tvm,
        tvm_ffi=versions.tvm_ffi,
        tool=versions.tool,
    )


@dataclass(frozen=True)
class _Taken:
    """A task with the points of its candidates that have a result, and the result of its default."""

    task: Task
    space: Any
    points: Sequence[Any]
    default: Result | None

    @classmethod
    def of(
        cls,
        task: Task,
        network: Network[Any],
        opened: OpenedFolder,
        results: Mapping[tuple[str, str], Result],
    ) -> _Taken:
        """Read the points of a task; one that is not in its space was made by another version."""
        space = network.space(task)
        own = [each for each in opened.about.candidates if each.task == task.workload]
        measured = [each for each in own if (task.workload, each.point) in results]
        points = [_point(space, task, each) for each in measured if each.stage != "default"]
        default = space.entry(space.default()).digest
        if any(each.stage == "default" and each.point != default for each in own):
            raise UsageError(
                f"{opened.folder}: the default of task {task.id} is another one here",
                "import it with the options with which it was exported, or export it again",
            )
        return cls(task, space, points, results.get((task.workload, default)))

    def store(self, context: RunContext) -> TunedTask | None:
        """Store the records of the task; None if its default was not measured or failed."""
        if self.default is None or self.default.failure:
            reason = (
                f"{self.default.failure}: {self.default.message}" if self.default else "it was not measured"
            )
            context.listener(LeftOut((self.task,)))
            context.listener(
                Notice(
                    f"task {self.task.id} ({self.task.name}) is left out: its default has no time: {reason}"
                )
            )
            return None
        key = context.key_of(self.task.workload)
        there = {each.digest for each in context.store.of_run(context.provenance.run) if each.key == key}
        points = [point for point in self.points if self.space.entry(point).digest not in there]
        run: TaskRun[Any] = TaskRun(self.task, self.space, Listed(points), context)
        run.begin()
        while proposals := run.propose(len(points)):
            run.record(proposals, run.measure(proposals))
        return run.unsettled()


def _point(space: Any, task: Task, each: About) -> Any:
    try:
        point = space.read(Entry(each.kind, each.payload, each.point), task.definition)
        space.check(point)
    except ToolchainError as error:
        raise UsageError(
            f"a candidate of task {task.id} is none of this network: {error.message}", "export it again"
        ) from error
    return point

"""Plans a run: its tasks, the sizes of their spaces, and its estimated duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolchain.boards.board import Board
from toolchain.errors import UsageError
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend, Network
from toolchain.tasks.candidate import record_key
from toolchain.tasks.task import Task, tasks_named
from toolchain.tuning.boards.pace import Pace, earlier_pace, longest_pace, usual_pace
from toolchain.tuning.options import BOARDS, TuneOptions
from toolchain.tuning.tuners.table import tuner_named


@dataclass(frozen=True)
class PlannedTask:
    """A task that would be tuned.

    Attributes
    ----------
    size
        Size of its space; None: too large to count.
    measured
        Number of its points with a record in the store.
    """

    task: Task
    size: int | None
    measured: int

    @property
    def left(self) -> int | None:
        """Number of points that are left to try; None: too many to count."""
        return None if self.size is None else max(0, self.size - max(1, self.measured))


@dataclass(frozen=True)
class RunPlan:
    """The plan of a run.

    Attributes
    ----------
    trials
        Largest number of trials: the user's number, or fewer if there are fewer candidates.
    limit_s
        No batch begins after this many seconds; None: no limit.
    pace
        Estimated time of a trial; `Pace.reason` says what it is based on.
    runner
        Name of the runner: `boards`, or one that needs no board.
    """

    tasks: list[PlannedTask]
    boards: tuple[str, ...]
    trials: int
    limit_s: float | None
    pace: Pace
    runner: str = BOARDS

    @property
    def seconds(self) -> float:
        """Estimated seconds of the search; an upper limit if `pace.most` is true."""
        seconds = self.trials * self.pace.seconds
        return seconds if self.limit_s is None else min(seconds, self.limit_s)

    @property
    def where(self) -> str:
        """The runner and the boards as text for the user."""
        boards = ", ".join(self.boards)
        return f"on {boards}" if self.runner == BOARDS else f"by {self.runner}, for {boards}"

    def to_json(self) -> dict[str, object]:
        """Return the plan as `toolchain tune --dry-run --json` prints it."""
        return {
            "trials": self.trials,
            "boards": list(self.boards),
            "runner": self.runner,
            "estimated_s": round(self.seconds, 1),
            "estimated_from": self.pace.reason,
            "at_most": self.pace.most,
            "tasks": [
                {**planned.task.to_json(), "size": planned.size, "measured": planned.measured}
                for planned in self.tasks
            ],
        }


def plan(
    network: Network[Any],
    backend: Backend[Any],
    target: BoardTarget,
    boards: Sequence[Board],
    store: RecordStore,
    options: TuneOptions,
) -> RunPlan:
    """Return the plan of a run with these options.

    Raises
    ------
    UsageError
        A task id is unknown or ambiguous, or the runner or tuner is unknown.
    """
    runner = planned_runner(backend, options)
    tuner_named(network, options.tuner)
    tasks = planned_tasks(network, options)
    keys = [record_key(task.workload, target, boards[0].record_class) for task in tasks]
    planned = []
    for task, key in zip(tasks, keys, strict=True):
        measured = 0 if options.fresh else len(store.measured(key))
        planned.append(PlannedTask(task, network.space(task).size, measured))
    lefts = [each.left for each in planned]
    finite = [left for left in lefts if left is not None]
    trials = min(options.trials, sum(finite)) if len(finite) == len(lefts) else options.trials
    usual_s = {name: way.trial_s for name, way in backend.runners.items() if way.trial_s is not None}
    pace = earlier_pace(store, keys[0], runner, usual_s) if keys else None
    if pace is None and runner in usual_s:
        pace = usual_pace(runner, usual_s[runner])
    return RunPlan(
        planned,
        tuple(board.name for board in boards),
        trials,
        options.time_s,
        pace or longest_pace(tasks, boards[0], options),
        runner,
    )


def plan_model(
    model: Model, backend: Backend[Any], boards: Sequence[Board], store: RecordStore, options: TuneOptions
) -> RunPlan:
    """Find the tasks of a model and return the plan of a run; see `plan`."""
    target = backend.target(options.cluster, options.threads, integers=model.integral)
    with backend.lower(model, target) as network:
        return plan(network, backend, target, boards, store, options)


def planned_tasks(network: Network[Any], options: TuneOptions) -> list[Task]:
    """Return the tasks to tune.

    Raises
    ------
    UsageError
        A task id is unknown or ambiguous.
    """
    return tasks_named(network.tasks, options.tasks, "--tasks")[: options.heaviest]


def planned_runner(backend: Backend[Any], options: TuneOptions) -> str:
    """Return the name of the runner.

    Raises
    ------
    UsageError
        The backend has no runner of this name.
    """
    name = options.runner or backend.runner
    known = [BOARDS, *backend.runners]
    if name not in known:
        raise UsageError(
            f"--runner {name}: no runner of this name runs this code", f"use one of: {', '.join(known)}"
        )
    return name

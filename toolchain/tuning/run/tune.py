"""`tune`: measures candidates for the tasks of a model and stores the records."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from toolchain import __version__
from toolchain.boards.board import Board
from toolchain.building.decide import recorded_points
from toolchain.errors import UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.models.load import Model
from toolchain.quantities import counted
from toolchain.records.record import Provenance
from toolchain.records.store import RecordStore
from toolchain.runtime import expected_fingerprint
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend
from toolchain.tasks.candidate import record_key
from toolchain.tasks.evaluator import Evaluator
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Space, Tuner
from toolchain.tuning.allowance import Allowance, RunTime
from toolchain.tuning.boards.cases import run_cases
from toolchain.tuning.boards.planned import is_switched_on
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.context import RunContext
from toolchain.tuning.events import Began, LeftOut, Listener, Notice, StepBegan
from toolchain.tuning.options import BOARDS, TuneOptions
from toolchain.tuning.plans.operands import redrawn
from toolchain.tuning.result import TuneResult
from toolchain.tuning.run.conclude import NetworkJudge, conclude, obstacle_to_network
from toolchain.tuning.run.experience import Experienced
from toolchain.tuning.run.pipeline import pipeline
from toolchain.tuning.run.plan import planned_runner, planned_tasks
from toolchain.tuning.run.preflight import preflight
from toolchain.tuning.schedulers.scheduler import SCHEDULERS, AnnouncingScheduler, Prospect
from toolchain.tuning.task_run import BadDefaultError, TaskRun
from toolchain.tuning.tuners.table import tuner_for

# Explains why a search ended before it had used all trials.


def why_ended_early(runs: Sequence[TaskRun[Any]], options: TuneOptions, allowed: Allowance | None) -> str:
    """Return the reason as a sentence for the user; empty if all trials were used."""
    used = sum(run.trials for run in runs)
    if used >= options.trials:
        return ""
    said = f"the search ended after {used} of {counted(options.trials, 'trial')}"
    if allowed is not None and allowed.up:
        return f"{said}: the rest of --time is for comparing the fastest again"
    if all(run.exhausted for run in runs):
        return f"{said}: every way to compute these tasks has been measured, in this run or before"
    if options.early_stopping is not None:
        return f"{said}: no task got faster by 1 % in its last {options.early_stopping} (--early-stopping)"
    return f"{said}: no tuner has anything left to try"


# Measures the defaults of a run's tasks before the search.


def measured_defaults(
    tasks: Sequence[Task],
    spaces: Sequence[Space[Any]],
    tuners: Sequence[Tuner[Any]],
    context: RunContext,
    allowed: Allowance | None,
) -> list[TaskRun[Any]]:
    """Begin the tasks in their order, which measures the default of each.

    If the code of a default is at fault, its task is left out with a notice, unless no other task is left.

    Parameters
    ----------
    allowed
        Time limit: later tasks are left out, but never the first. None: no limit.

    Raises
    ------
    ToolchainError
        A default does not run, or the code of every default is at fault.
    """
    runs: list[TaskRun[Any]] = []
    faulty: list[BadDefaultError] = []
    for task, space, tuner in zip(tasks, spaces, tuners, strict=True):
        if runs and allowed is not None and allowed.up:
            break
        run = TaskRun(task, space, tuner, context)
        try:
            run.begin()
        except BadDefaultError as error:
            faulty.append(error)
            context.listener(LeftOut((task,)))
            context.listener(Notice(_left_as_it_is(error)))
        else:
            runs.append(run)
    if faulty and not runs:
        raise faulty[0]
    if left := tuple(tasks[len(runs) + len(faulty) :]):
        context.listener(LeftOut(left))
        context.listener(Notice(_left_out(left, len(tasks), context)))
    return runs


def _left_as_it_is(error: BadDefaultError) -> str:
    return (
        f"{error.message}. This task is left out, and the others are tuned. A build for this board would use "
        f"the same code: {error.hint}"
    )


def _left_out(left: Sequence[Task], count: int, context: RunContext) -> str:
    ids = ",".join(task.id for task in left)
    measured = sum(bool(context.store.measured(context.key_of(task.workload))) for task in left)
    kept = f" Builds still use what earlier runs measured for {measured} of them." if measured else ""
    return (
        f"{counted(len(left), 'task is', 'tasks are')} left out of this run, the last of {count}: --time was "
        f"too short to measure their defaults first.{kept} To tune them, give more --time, or name them: "
        f"--tasks {ids}"
    )


def tune(
    model: Model,
    backend: Backend[Any],
    boards: Sequence[Board],
    store: RecordStore,
    options: TuneOptions,
    listener: Listener,
) -> TuneResult:
    """Tune a model's tasks for boards of one class.

    Every trial is stored as soon as it is measured: an interrupted run loses only the batches under way, and
    the next run continues from there.

    Raises
    ------
    UsageError
        An option does not fit the model or the boards.
    ToolchainError
        The lab does not start, or all candidates of the first round fail.
    """
    given = RunTime(options.time_s)
    board, runner = _alike(boards), planned_runner(backend, options)
    listener(StepBegan("finding the tasks"))
    target = backend.target(options.cluster, options.threads, integers=model.integral)
    with ExitStack() as stack:
        network = stack.enter_context(backend.lower(model, target))
        tasks = planned_tasks(network, options)
        listener(Began(tuple(tasks), options.trials))
        spaces = [network.space(task) for task in tasks]
        tuners: list[Tuner[Any]] = [
            tuner_for(network, task, space, options.tuner, options.search_seed + place)
            for place, (task, space) in enumerate(zip(tasks, spaces, strict=True))
        ]
        for tuner in tuners:
            stack.callback(tuner.close)
        cases = stack.enter_context(run_cases(lambda text: listener(Notice(text))))
        for task, space in zip(tasks, spaces, strict=True):
            definition = network.reference(task)
            if runner == BOARDS and is_switched_on():  # boards draw the weights, which then need not travel
                definition = redrawn(space.candidate(space.default()), definition)
            cases.begin(task, definition)
        reference = stack.enter_context(scratch_folder())
        search = stack.enter_context(pipeline())
        evaluator = stack.enter_context(_evaluator(backend, runner, boards, target, options, listener))
        if evaluator.device:
            target = replace(target, device=evaluator.device)
        if evaluator.runner.names and (probe := network.probe()) is not None:
            listener(StepBegan("trying the way to the board with a known-good kernel"))
            preflight(probe, evaluator, reference)
        listener(StepBegan("measuring the defaults"))
        recorded = {} if options.fresh else recorded_points(network, tasks, store, target, board.record_class)
        context = RunContext(
            evaluator=evaluator,
            cases=cases,
            store=store,
            provenance=_provenance(board),
            listener=listener,
            fresh=options.fresh,
            key_of=lambda workload: record_key(workload, target, board.record_class),
            recorded=recorded,
        )
        if not options.fresh:
            tuners = [
                Experienced(tuner, space, context.key_of(task.workload), store)
                for task, space, tuner in zip(tasks, spaces, tuners, strict=True)
            ]
        runs = measured_defaults(tasks, spaces, tuners, context, given.defaults())
        listener(StepBegan("searching"))
        prospects = [Prospect(run.task.weight, run.default_ms, run.left) for run in runs]
        scheduler = SCHEDULERS[options.scheduler](options.trials, prospects, options.early_stopping)
        modelled = any(run.modelled for run in runs)
        obstacle = obstacle_to_network(runner, boards, modelled=modelled) or network.unjudgeable_reason
        before, search_begun = evaluator.runner.in_use_s, time.monotonic()
        allowed = given.search()
        search.run(runs, AnnouncingScheduler(scheduler, [run.task for run in runs], listener), allowed)
        search_s = time.monotonic() - search_begun
        if why := why_ended_early(runs, options, allowed):
            listener(Notice(why))
        in_use_s = {name: seconds - before[name] for name, seconds in evaluator.runner.in_use_s.items()}
        judge = NetworkJudge(
            model, backend, network, target, boards, store, listener, evaluator.runner.revive
        )
        tuned, in_network = conclude(runs, judge, obstacle, given.conclusion())
        power_cycles = dict(evaluator.runner.power_cycles)
    measured = {name: sum(run.boards[name] for run in runs) for name in evaluator.runner.names}
    result = TuneResult(
        tasks=tuned,
        seconds=time.monotonic() - given.begun,
        boards=measured,
        network=in_network,
        run=context.provenance.run,
        search_s=search_s,
        in_use_s=in_use_s,
        power_cycles=power_cycles,
        beside_others=sum(run.beside_others for run in runs),
    )
    listener(result.verdict)
    return result


def _evaluator(
    backend: Backend[Any],
    runner: str,
    boards: Sequence[Board],
    target: BoardTarget,
    options: TuneOptions,
    listener: Listener,
) -> AbstractContextManager[Evaluator]:
    """Return a context that yields what builds and measures candidates."""
    if runner == BOARDS:
        return board_evaluator(boards, target, options, listener)
    return backend.runners[runner].evaluator(target)


def _alike(boards: Sequence[Board]) -> Board:
    """Check that all boards have the same class; return the first."""
    first = boards[0]
    for other in boards[1:]:
        if (other.profile, other.record_class) != (first.profile, first.record_class):
            raise UsageError(
                f"boards {first.name} ({first.record_class}) and {other.name} ({other.record_class}) are not "
                "alike: what is fast on one says nothing about the other",
                f"tune one class after the other: --board {first.name}, then --board {other.name}",
            )
    return first


def _provenance(board: Board) -> Provenance:
    return Provenance(
        run=uuid.uuid4().hex,
        board=board.name,
        runtime=expected_fingerprint(),  # every session checks it
        tvm=version("apache-tvm"),
        tvm_ffi=version("apache-tvm-ffi"),
        tool=__version__,
    )

"""`tune`: the tasks of a model, measured on boards, into the store."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version

from toolchain import __version__
from toolchain.backends.packed import kinds as packed
from toolchain.backends.packed.machines import machine_of
from toolchain.boards.board import Board
from toolchain.building.build import kinds_for, record_key, usable_for
from toolchain.errors import ToolchainError, UsageError
from toolchain.lowering.pipeline import fuse
from toolchain.lowering.tasks import Task, extract_tasks, tasks_named
from toolchain.models.load import Model
from toolchain.processes.interrupts import let_signals_end_waits
from toolchain.records.record import Provenance
from toolchain.records.store import RecordStore, Usable, anything
from toolchain.rpc.lab import joined
from toolchain.runtime import expected_fingerprint
from toolchain.targets.target import BoardTarget, target_for
from toolchain.tuning.candidate import Search
from toolchain.tuning.choice_search import ChoiceSearch
from toolchain.tuning.confirm import Confirmed, confirm
from toolchain.tuning.cost_model import cost_model
from toolchain.tuning.events import Listener, Step
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.result import TunedTask, TuneResult
from toolchain.tuning.task import RunContext, TaskRun
from toolchain.tuning.trace_search import TraceSearch
from toolchain.tuning.workbench import open_workbench

# As many as a search proposes before it learns from them.
_BATCH = 8


def plan(model: Model, board: Board, options: TuneOptions) -> tuple[BoardTarget, list[Task]]:
    """Return what `tune` would tune, and for what.

    Raises
    ------
    UsageError
        A task id is unknown, or means several.
    """
    target = target_for(board.profile, options.cluster, options.threads, model.options.dtype)
    tasks = extract_tasks(fuse(model.module, target.target, model.options.layout))
    return target, tasks_named(tasks, options.tasks, "--tasks")[: options.heaviest]


def tune(
    model: Model,
    boards: Sequence[Board],
    store: RecordStore,
    options: TuneOptions,
    listener: Listener,
) -> TuneResult:
    """Tune a model's tasks on boards of one class.

    Every trial is in the store when it has been measured: an interrupted run loses what is in
    flight, and the next one continues from there.

    Raises
    ------
    UsageError
        An option does not fit the model or the boards.
    ToolchainError
        The lab does not come up, or no candidate of a whole first round runs.
    """
    begun = time.monotonic()
    board = _alike(boards)
    listener(Step("finding the tasks"))
    target, tasks = plan(model, board, options)
    listener(Step("starting the lab"))
    with (
        joined(boards, threads=target.threads, cluster=target.cpu) as lab,
        open_workbench(boards, lab, target, options, listener) as bench,
    ):
        listener(Step("measuring the defaults"))
        context = RunContext(
            bench=bench,
            store=store,
            provenance=_provenance(board, model),
            listener=listener,
            fresh=options.fresh,
            key_of=lambda workload: record_key(workload, target, board.record_class),
            kinds=kinds_for(model),
            usable=usable_for(model),
            allowed=_allowed(model),
        )
        search_of = _searches(model, target, options.search_seed)
        runs = [TaskRun(task, search_of(place, task), context) for place, task in enumerate(tasks)]
        listener(Step("searching"))
        _search(runs, options, begun)
        listener(Step("measuring the finalists again"))
        finalists = [run.finalists() for run in runs]
        let_signals_end_waits()
        comparisons = bench.threads.map(lambda run, some: confirm(run.task, some, bench), runs, finalists)
        tuned = [_finish(run, confirmed) for run, confirmed in zip(runs, comparisons, strict=True)]
    measured = {name: sum(run.boards[name] for run in runs) for name in (each.name for each in boards)}
    return TuneResult(tuned, time.monotonic() - begun, measured)


def _searches(model: Model, target: BoardTarget, seed: int) -> Callable[[int, Task], Search]:
    """Return what makes the search for a task, given its place."""
    if model.options.packed:
        machine, winograd = machine_of(target), model.options.uses_winograd
        return lambda _place, task: ChoiceSearch(task, machine, winograd)
    learned = cost_model()  # one for all tasks: what it learns of one helps with the next
    return lambda place, task: TraceSearch(task, target.target, learned, seed + place)


def _alike(boards: Sequence[Board]) -> Board:
    """Return the first board, which stands for all of them."""
    first = boards[0]
    for other in boards[1:]:
        if (other.profile, other.record_class) != (first.profile, first.record_class):
            raise UsageError(
                f"boards {first.name} ({first.record_class}) and {other.name} ({other.record_class}) are not "
                "alike: what is fast on one says nothing about the other",
                f"tune one class after the other: --board {first.name}, then --board {other.name}",
            )
    return first


def _search(runs: Sequence[TaskRun], options: TuneOptions, begun: float) -> None:
    """Give each task its share of the trials, one batch in turn."""
    searches: list[tuple[TaskRun, Iterator[None]]] = []
    for run, share in zip(runs, shares(options.trials, [run.search.size for run in runs]), strict=True):
        if share:
            batch = min(share, max(_BATCH, len(run.context.bench.boards)))
            searches.append((run, run.run(share, batch)))
    first_round = True
    while searches:
        for entry in list(searches):
            if options.time_s is not None and time.monotonic() - begun > options.time_s:
                return
            if next(entry[1], _ENDED) is _ENDED:
                searches.remove(entry)
        if first_round:
            _check_first_round(runs)
        first_round = False


def shares(trials: int, sizes: Sequence[int | None]) -> list[int]:
    """Deal trials out evenly, to no task more than it has candidates; the first get what is left over."""
    given = [0] * len(sizes)
    while trials and (open_ := [at for at, size in enumerate(sizes) if size is None or given[at] < size]):
        each, rest = divmod(trials, len(open_))
        for turn, at in enumerate(open_):
            size = sizes[at]
            more = each + (turn < rest)
            more = more if size is None else min(more, size - given[at])
            given[at] += more
            trials -= more
    return given


_ENDED = object()


def _check_first_round(runs: Sequence[TaskRun]) -> None:
    trials = sum(run.trials for run in runs)
    failed = sum(run.failures.total() for run in runs)
    if trials and trials == failed:
        first = next(run for run in runs if run.first_failure)
        raise ToolchainError(
            f"all {trials} candidates of the first round failed; the first, of task {first.task.id} "
            f"({first.task.name}): {first.first_failure}",
            "`toolchain board show` checks the board; --timeout S gives it more time",
        )


def _finish(run: TaskRun, confirmed: Confirmed) -> TunedTask:
    # It may be of an earlier run that left out something else: now it was compared with what this run has.
    excluded = run.context.provenance.excluded
    choice = replace(confirmed.choice, provenance=replace(confirmed.choice.provenance, excluded=excluded))
    run.context.store.add(choice)
    default = run.default.record
    return TunedTask(run.task, run.trials, run.failures.total(), default, confirmed.default_ms, choice)


def _allowed(model: Model) -> Usable:
    return packed.allowed(model.options.uses_winograd) if model.options.packed else anything


def _provenance(board: Board, model: Model) -> Provenance:
    return Provenance(
        run=uuid.uuid4().hex,
        board=board.name,
        runtime=expected_fingerprint(),  # every session checks it
        tvm=version("apache-tvm"),
        tvm_ffi=version("apache-tvm-ffi"),
        tool=__version__,
        excluded=packed.excluded(model.options.uses_winograd) if model.options.packed else "",
    )

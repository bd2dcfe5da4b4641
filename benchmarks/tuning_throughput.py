"""How many candidates a tuning run measures in a minute, and for how much of the search the board is in use.

    python benchmarks/tuning_throughput.py --packed     the choices of packed code
    python benchmarks/tuning_throughput.py --plain      plain loops, beside stock MetaSchedule

Stock MetaSchedule is `tune_tir` of the installed TVM with its own builder, runner, rules, cost model and
batch of 64, for the same unscheduled functions, seed and number of trials. Ours is the search of
`toolchain tune --layout NCHW`. Both begin with nothing. What each took for its best, by the means of its own
measurements, is measured again in turn, with nothing beside it: a search that compiles meanwhile slows its
board down where that is this host. Wants an idle machine.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median

from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import local_board
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.records.sqlite import FILE_NAME
from toolchain.records.store import RecordStore
from toolchain.tasks.candidate import Entry, entry_of
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.boards.cases import run_cases
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.result import TuneResult
from toolchain.tuning.run.tune import tune

_ROUNDS = 5
Bests = Mapping[str, Entry]
"""Workload -> what a search takes for the best."""


def ours(model: Model, layout: str, how: TuneOptions) -> tuple[TuneResult, Bests]:
    """Return a run that knows of no earlier one."""
    board = local_board()
    with tempfile.TemporaryDirectory() as folder, RecordStore(Path(folder) / FILE_NAME) as store:
        backend = backend_for(board.profile, CodeOptions(layout=layout))
        result = tune(model, backend, [board], store, how, lambda _event: None)
        ran = [record for record in store.all() if record.run_ms and not record.confirmed]
    ran.sort(key=lambda record: -fmean(record.run_ms))
    return result, {record.key.workload: entry_of(record) for record in ran}


def summary(result: TuneResult) -> dict[str, object]:
    """Return what counts of a run."""
    trials = sum(tuned.trials for tuned in result.tasks)
    return {
        "trials": trials,
        "failed": sum(tuned.failed for tuned in result.tasks),
        "search_s": round(result.search_s, 1),
        "trials_per_minute": round(60 * trials / result.search_s, 1),
        "in_use": {name: round(s / result.search_s, 2) for name, s in result.in_use_s.items()},
    }


def stock(model: Model, how: TuneOptions) -> tuple[dict[str, object], Bests]:
    """Return the same of MetaSchedule's own loop."""
    from tvm.s_tir import meta_schedule as ms

    from toolchain.backends.tensorir.backend import TensorIR
    from toolchain.backends.tensorir.traces import trace_entry
    from toolchain.lowering.functions.definition import module_of

    backend = backend_for(local_board().profile, CodeOptions(layout="NCHW"))
    assert isinstance(backend, TensorIR)  # noqa: S101 - of this layout
    target = backend.target(how.cluster, how.threads)
    with backend.lower(model, target) as network:
        tasks = [network.fused_task(task) for task in network.tasks[: how.heaviest]]
    importlib.import_module("tvm.s_tir.tensor_intrin")  # takes seconds, which count for neither
    trials, bests = 0, dict[str, Entry]()
    evaluator = ms.runner.EvaluatorConfig(
        number=how.number, repeat=how.repeat, min_repeat_ms=how.min_repeat_ms, enable_cpu_cache_flush=False
    )
    begun = time.monotonic()
    for task in tasks:
        with tempfile.TemporaryDirectory() as folder:
            database = ms.tune_tir(
                module_of(task.func),
                target.target,
                folder,
                max_trials_global=how.trials // len(tasks),
                builder=ms.builder.LocalBuilder(),
                runner=ms.runner.LocalRunner(evaluator_config=evaluator),
                seed=how.search_seed,
            )
            ran = [record for record in database.get_all_tuning_records() if record.run_secs]
            trials += how.trials // len(tasks)
            best = min(ran, key=lambda record: fmean(map(float, record.run_secs)))
            bests[task.workload] = trace_entry(best.trace, best.args_info)
    took = time.monotonic() - begun
    said: dict[str, object] = {
        "trials": trials,
        "search_s": round(took, 1),
        "trials_per_minute": round(60 * trials / took, 1),
    }
    return said, bests


def again(model: Model, how: TuneOptions, searches: Mapping[str, Bests]) -> dict[str, dict[str, float]]:
    """Return by task and search the milliseconds of what was found, and of the default."""
    board = local_board()
    backend = backend_for(board.profile, CodeOptions(layout="NCHW"))
    target = backend.target(how.cluster, how.threads)
    said: dict[str, dict[str, float]] = {}
    with (
        backend.lower(model, target) as network,
        run_cases(print) as cases,
        board_evaluator([board], target, how, lambda _event: None) as evaluator,
    ):
        for task in network.tasks[: how.heaviest]:
            space = network.space(task)
            points = {"default": space.default()}
            points |= {name: space.read(bests[task.workload], "") for name, bests in searches.items()}
            cases.begin(task, network.reference(task))
            evaluator.runner.expect(task, cases.of(task))
            built = evaluator.builder.build([space.candidate(point) for point in points.values()])
            rounds = evaluator.runner.compare(task, built, _ROUNDS)
            said[task.id] = {
                name: round(median(ms for results in rounds for ms in results[place].run_ms), 3)
                for place, name in enumerate(points)
            }
    return said


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--packed", action="store_true")
    which.add_argument("--plain", action="store_true")
    parser.add_argument("--model", default="zoo:resnet-18")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=4, help="so many of the heaviest")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    model = load_model(given.model, ModelOptions())
    how = TuneOptions(
        trials=given.trials,
        heaviest=given.tasks,
        threads=given.threads,
        search_seed=given.seed,
        scheduler="round-robin",
        fresh=True,
    )
    said: dict[str, object] = {"arguments": vars(given)}
    searches: dict[str, Bests] = {}
    if given.plain:
        # First: ours keeps TVM from importing the intrinsics that its rules want.
        said["stock"], searches["stock"] = stock(model, how)
    result, searches["ours"] = ours(model, "packed" if given.packed else "NCHW", how)
    said["ours"] = summary(result)
    if given.plain:
        said["best_ms"] = again(model, how, searches)
    print(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()

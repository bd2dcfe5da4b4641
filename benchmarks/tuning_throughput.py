"""How many candidates a tuning run measures in a minute, and for how much of the search the board is in use.

    python benchmarks/tuning_throughput.py --packed     the choices of packed code
    python benchmarks/tuning_throughput.py --plain      plain loops, beside stock MetaSchedule

Stock MetaSchedule is `tune_tir` of the installed TVM with its own builder, runner, rules, cost model and
batch of 64, for the same unscheduled functions, seed and number of trials; its best is the smallest mean of
its records. Ours is the search of `toolchain tune --layout NCHW`. Both begin with nothing. Wants an idle
machine.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from pathlib import Path
from statistics import fmean

from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import local_board
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.records.store import FILE_NAME, RecordStore
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.result import TuneResult
from toolchain.tuning.run import tune


def ours(model: Model, layout: str, how: TuneOptions) -> TuneResult:
    """Return a run that knows of no earlier one."""
    board = local_board()
    with tempfile.TemporaryDirectory() as folder, RecordStore(Path(folder) / FILE_NAME) as store:
        backend = backend_for(board.profile, CodeOptions(layout=layout))
        return tune(model, backend, [board], store, how, lambda _event: None)


def summary(result: TuneResult) -> dict[str, object]:
    """Return what counts of a run."""
    trials = sum(tuned.trials for tuned in result.tasks)
    return {
        "trials": trials,
        "failed": sum(tuned.failed for tuned in result.tasks),
        "search_s": round(result.search_s, 1),
        "trials_per_minute": round(60 * trials / result.search_s, 1),
        "in_use": {name: round(s / result.search_s, 2) for name, s in result.in_use_s.items()},
        "best_ms": {tuned.task.id: round(tuned.best_ms, 3) for tuned in result.tasks},
    }


def stock(model: Model, how: TuneOptions) -> dict[str, object]:
    """Return the same of MetaSchedule's own loop."""
    from tvm.s_tir import meta_schedule as ms

    from toolchain.backends.tensorir.backend import TensorIR
    from toolchain.lowering.definition import module_of

    backend = backend_for(local_board().profile, CodeOptions(layout="NCHW"))
    assert isinstance(backend, TensorIR)  # noqa: S101 - of this layout
    target = backend.target(how.cluster, how.threads)
    with backend.lower(model, target) as network:
        tasks = [network.fused_task(task) for task in network.tasks[: how.heaviest]]
    importlib.import_module("tvm.s_tir.tensor_intrin")  # takes seconds, which count for neither
    trials, best = 0, {}
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
            records = database.get_all_tuning_records()
            trials += how.trials // len(tasks)
            times = [fmean(float(each) for each in record.run_secs) for record in records if record.run_secs]
            best[task.id] = round(1e3 * min(times), 3) if times else None
    took = time.monotonic() - begun
    return {
        "trials": trials,
        "search_s": round(took, 1),
        "trials_per_minute": round(60 * trials / took, 1),
        "best_ms": best,
    }


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
    if given.plain:
        # First: ours keeps TVM from importing the intrinsics that its rules want.
        said["stock"] = stock(model, how)
    said["ours"] = summary(ours(model, "packed" if given.packed else "NCHW", how))
    print(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()

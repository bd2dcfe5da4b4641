"""Search one small task with MetaSchedule over a store; made-up times, real candidates.

Usage: python -m tests.records.search STORE tune|read
"""

# ruff: noqa: E402

from __future__ import annotations

import sys
import types
from pathlib import Path

# TuneContext imports every target's intrinsics, which takes ten seconds; this task needs none.
sys.modules["tvm.s_tir.tensor_intrin"] = types.ModuleType("tvm.s_tir.tensor_intrin")

import tvm
import tvm_ffi
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.runner import RunnerResult
from tvm.target import Target

from tests.records.matmul import matmul
from tests.records.samples import PROVENANCE
from toolchain.records.database import StoreDatabase
from toolchain.records.key import RecordKey, workload_hash
from toolchain.records.lookup import lookup
from toolchain.records.store import RecordStore
from toolchain.records.traces import schedule_from, trace_digest

TARGET = Target({"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu", "mcpu": "x86-64-v3", "num-cores": 2})
FUNC = matmul(32).with_attr("global_symbol", "main")


def key_for(workload: str) -> RecordKey:
    """Return the key of a workload on the imagined board."""
    return RecordKey(workload, "x86_64-unknown-linux-gnu", "x86-64-v3", "x86-64-v3", 2, "x86_64")


def search(database: StoreDatabase, seed: int) -> set[str]:
    """Run one batch of four candidates through evolutionary search; return their digests."""
    task = ms.TuneContext(
        mod=tvm.IRModule({"main": FUNC}),
        target=TARGET,
        space_generator="post-order-apply",
        search_strategy="evolutionary",
        num_threads=1,
        rand_state=seed,
    )
    model = ms.cost_model.RandomModel()
    task.pre_tuning(max_trials=4, num_trials_per_iter=4, database=database, cost_model=model)
    candidates = task.generate_measure_candidates()
    assert candidates
    workload = database.commit_workload(task.mod)
    results = []
    for number, candidate in enumerate(candidates):
        seconds = [0.001 * (4 - number) / seed] if number else [1e10]  # the first one failed
        results.append(RunnerResult(seconds, None))
        database.commit_tuning_record(
            ms.database.TuningRecord(candidate.sch.trace, workload, seconds, TARGET, candidate.args_info)
        )
    task.notify_runner_results(candidates, results)
    task.post_tuning()
    best = candidates[-1].sch.mod
    (top,) = database.get_top_k(workload, 1)
    assert tvm_ffi.structural_equal(ms.database.TuningRecord.as_measure_candidate(top).sch.mod, best)
    return {trace_digest(candidate.sch.trace) for candidate in candidates[1:]}


with RecordStore(Path(sys.argv[1])) as store:
    database = StoreDatabase("matmul", store, TARGET, key_for, lambda: PROVENANCE)
    key = key_for(workload_hash(FUNC))
    if sys.argv[2] == "tune":
        digests = search(database, seed=1)
        assert store.measured(key) == digests
        assert len(database) == store.count() == 3
    else:
        before = store.best(key)
        workload = database.commit_workload(tvm.IRModule({"main": FUNC}))
        record = database.get_top_k(workload, 2)[0]
        assert [float(value) * 1e3 for value in record.run_secs] == list(before.run_ms)
        hit = lookup(store, key)
        named = FUNC.with_attr("global_symbol", "fused_matmul")
        scheduled = schedule_from(hit.record.payload, hit.function, named)
        assert scheduled.attrs["global_symbol"] == "fused_matmul"
        again = record.as_measure_candidate().sch.mod["main"].with_attr("global_symbol", "fused_matmul")
        assert tvm_ffi.structural_equal(scheduled, again)
        assert not tvm_ffi.structural_equal(scheduled, named)
        search(database, seed=2)  # with earlier records to start from
        assert store.count() == 6
    print(store.best(key).best_ms)

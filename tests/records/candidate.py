"""Put a real candidate of MetaSchedule's search into a store, or apply what is there; print its hash.

Usage: python -m tests.records.candidate STORE tune|read
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
from tvm.target import Target

from tests.records.matmul import matmul
from tests.records.samples import PROVENANCE
from toolchain.backends.tensorir.kinds import KINDS
from toolchain.backends.tensorir.traces import schedule_from, trace_entry, traced, with_attributes
from toolchain.lowering.functions.definition import definition_of
from toolchain.lowering.functions.tasks import workload_hash
from toolchain.records.lookup import lookup
from toolchain.records.record import Record, RecordKey
from toolchain.records.store import RecordStore

TARGET = Target({"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu", "mcpu": "x86-64-v3", "num-cores": 2})
FUNC = matmul(32).with_attr("global_symbol", "main")


KEY = RecordKey(workload_hash(FUNC), "x86_64-unknown-linux-gnu", "x86-64-v3", "x86-64-v3", 2, "x86_64")


def candidate() -> ms.MeasureCandidate:
    """Return a candidate as evolutionary search proposes it, postprocessing included."""
    task = ms.TuneContext(
        mod=tvm.IRModule({"main": FUNC}),
        target=TARGET,
        space_generator="post-order-apply",
        search_strategy="evolutionary",
        num_threads=1,
        rand_state=1,
    )
    task.pre_tuning(
        max_trials=1,
        num_trials_per_iter=1,
        database=ms.database.MemoryDatabase(),
        cost_model=ms.cost_model.RandomModel(),
    )
    return task.generate_measure_candidates()[0]


with RecordStore(Path(sys.argv[1])) as store:
    if sys.argv[2] == "tune":
        exported = candidate()
        function = store.add_function(KEY.workload, "matmul", definition_of(FUNC))
        entry = trace_entry(exported.sch.trace, exported.args_info)
        store.add(Record(KEY, function, "metaschedule", entry.payload, entry.digest, PROVENANCE, (1.0,)))
        print(workload_hash(exported.sch.mod["main"]))
    else:
        named = FUNC.with_attr("global_symbol", "fused_matmul")
        hit = lookup(store, KEY, KINDS)
        scheduled = with_attributes(schedule_from(hit.record.payload, hit.definition, named), named)
        assert scheduled.attrs["global_symbol"] == "fused_matmul"
        assert not tvm_ffi.structural_equal(scheduled, named)
        assert store.measured(KEY) == {trace_entry(traced(hit.record.payload, FUNC).trace, []).digest}
        print(workload_hash(scheduled))

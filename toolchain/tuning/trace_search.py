"""The search for one task's schedule: MetaSchedule's strategy, cost model and database, our loop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.tirx import PrimFunc

from toolchain.backends.tensorir.kinds import DEFAULT, METASCHEDULE
from toolchain.backends.tensorir.rules import tune_context
from toolchain.backends.tensorir.traces import schedule_from, trace_digest, trace_payload, traced
from toolchain.errors import ToolchainError
from toolchain.lowering.parameter import Parameter
from toolchain.lowering.rows import default_schedule
from toolchain.lowering.tasks import Task
from toolchain.processes.interrupts import uninterrupted
from toolchain.records.key import RecordKey
from toolchain.records.record import Record
from toolchain.records.store import RecordStore
from toolchain.tuning.candidate import Candidate
from toolchain.tuning.measure import Measured

_MAIN = "main"
_EARLIER = 64  # records of earlier runs that a search begins from


class TraceSearch:
    """Proposes schedules of one unscheduled function; see `candidate.Search`."""

    def __init__(self, task: Task, target: tvm.target.Target, cost_model: ms.CostModel, seed: int) -> None:
        self.task, self.target, self.cost_model, self.seed = task, target, cost_model, seed
        self.module = tvm.IRModule({_MAIN: task.func.with_attr("global_symbol", _MAIN)})
        self.database = ms.database.MemoryDatabase()
        self.workload = self.database.commit_workload(self.module)
        self.context: ms.TuneContext  # of the search that runs
        self.proposed: list[ms.MeasureCandidate] = []

    @property
    def size(self) -> None:
        """No limit."""
        return

    def default(self) -> Candidate:
        """Return the default schedule."""
        return self._candidate(DEFAULT, "", DEFAULT, _module(default_schedule(self.task.func)))

    def recorded(self, record: Record, definition: str) -> Candidate:
        """Return the schedule of a record."""
        func = schedule_from(record.payload, definition, self.task.func)
        return self._candidate(record.kind, record.payload, record.digest, _module(func))

    def learn_earlier(self, store: RecordStore, key: RecordKey) -> None:
        """Begin from the best records of earlier runs, and with another seed than they did."""
        self.seed += len(store.measured(key))
        for row in store.top(key, (METASCHEDULE,), _EARLIER):
            try:
                trace = traced(row.payload, self.module[_MAIN]).trace
            except ToolchainError:
                continue  # of a twin whose blocks have other names: no use to a search
            arguments = [ms.arg_info.ArgInfo.from_json(item) for item in json.loads(row.payload)["arguments"]]
            seconds = [value / 1e3 for value in row.run_ms]
            self.database.commit_tuning_record(
                ms.database.TuningRecord(trace, self.workload, seconds, self.target, arguments)
            )

    @contextmanager
    def batches(self, trials: int, batch: int) -> Iterator[Iterator[list[Candidate]]]:
        """Yield batches that MetaSchedule's strategy proposes."""
        self.context = context = tune_context(self.module, self.target, self.task.name, self.seed)
        with uninterrupted():
            context.pre_tuning(
                max_trials=trials,
                num_trials_per_iter=batch,
                design_spaces=context.generate_design_space(),
                database=self.database,
                cost_model=self.cost_model,
            )
        try:
            yield iter(lambda: self._next_batch(context), None)
        finally:
            context.post_tuning()

    def _next_batch(self, context: ms.TuneContext) -> list[Candidate] | None:
        with uninterrupted():
            self.proposed = list(context.generate_measure_candidates() or ())
        candidates = []
        for proposed in self.proposed:
            payload = trace_payload(self._record(proposed, []))
            digest = trace_digest(proposed.sch.trace)
            candidates.append(self._candidate(METASCHEDULE, payload, digest, proposed.sch.mod))
        return candidates or None

    def learn(self, measured: list[Measured]) -> None:
        """Tell strategy, cost model and database what the last batch took."""
        results = []
        for candidate, result in zip(self.proposed, measured, strict=True):
            seconds = None if result.failure else [value / 1e3 for value in result.run_ms]
            results.append(ms.runner.RunnerResult(seconds, result.message or None))
            if seconds:
                self.database.commit_tuning_record(self._record(candidate, seconds))
        with uninterrupted():
            self.context.notify_runner_results(self.proposed, results)
            self.cost_model.update(self.context, self.proposed, results)

    def _record(self, candidate: ms.MeasureCandidate, seconds: list[float]) -> ms.database.TuningRecord:
        return ms.database.TuningRecord(
            candidate.sch.trace, self.workload, seconds, self.target, candidate.args_info
        )

    def _candidate(self, kind: str, payload: str, digest: str, module: tvm.IRModule) -> Candidate:
        parameters = tuple(
            Parameter(shape, str(parameter.dtype))
            for shape, parameter in zip(self.task.shapes, self.task.func.params, strict=True)
        )
        return Candidate(kind, payload, digest, module, parameters, self.task.outputs)


def _module(func: PrimFunc) -> tvm.IRModule:
    """Return the module of one scheduled function, under the name that is measured."""
    return tvm.IRModule({_MAIN: func.with_attr("global_symbol", _MAIN)})

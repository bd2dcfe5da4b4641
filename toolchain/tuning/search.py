"""The search for one task's schedule: MetaSchedule's strategy, cost model and database, our loop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.tirx import PrimFunc

from toolchain.errors import ToolchainError
from toolchain.interrupts import uninterrupted
from toolchain.records.key import RecordKey
from toolchain.records.store import RecordStore
from toolchain.records.traces import traced
from toolchain.tuning.measure import Measured
from toolchain.tuning.space import tune_context

_MAIN = "main"
_EARLIER = 64  # records of earlier runs that a search begins from


class Search:
    """Proposes candidates for one function and learns from what they took.

    Parameters
    ----------
    func
        Unscheduled.
    """

    def __init__(
        self,
        name: str,
        func: PrimFunc,
        target: tvm.target.Target,
        cost_model: ms.CostModel,
        seed: int,
    ) -> None:
        self.module = tvm.IRModule({_MAIN: func.with_attr("global_symbol", _MAIN)})
        self.target = target
        self.cost_model = cost_model
        self.context = tune_context(self.module, target, name, seed)
        self.database = ms.database.MemoryDatabase()
        self.workload = self.database.commit_workload(self.module)

    def learn_earlier(self, store: RecordStore, key: RecordKey) -> int:
        """Begin from the best records of earlier runs; return how many there are."""
        rows = store.top(key, _EARLIER)
        for row in rows:
            try:
                trace = traced(row.payload, self.module[_MAIN]).trace
            except ToolchainError:
                continue  # of a twin whose blocks have other names: no use to a search
            arguments = [ms.arg_info.ArgInfo.from_json(item) for item in json.loads(row.payload)["arguments"]]
            seconds = [value / 1e3 for value in row.run_ms]
            self.database.commit_tuning_record(
                ms.database.TuningRecord(trace, self.workload, seconds, self.target, arguments)
            )
        return len(rows)

    @contextmanager
    def batches(self, trials: int, batch: int) -> Iterator[Iterator[list[ms.MeasureCandidate]]]:
        """Yield batches of at most `batch` candidates, at most `trials` in all.

        Each batch must be answered by `learn` before the next is asked for.
        """
        with uninterrupted():
            self.context.pre_tuning(
                max_trials=trials,
                num_trials_per_iter=batch,
                design_spaces=self.context.generate_design_space(),
                database=self.database,
                cost_model=self.cost_model,
            )
        try:
            yield iter(self._next_batch, None)
        finally:
            self.context.post_tuning()

    def _next_batch(self) -> list[ms.MeasureCandidate] | None:
        with uninterrupted():
            candidates = self.context.generate_measure_candidates()
        return list(candidates) if candidates else None

    def learn(self, candidates: list[ms.MeasureCandidate], measured: list[Measured]) -> None:
        """Tell strategy, cost model and database what the last batch took."""
        results = []
        for candidate, result in zip(candidates, measured, strict=True):
            seconds = None if result.failure else [value / 1e3 for value in result.run_ms]
            results.append(ms.runner.RunnerResult(seconds, result.message or None))
            if seconds:
                self.database.commit_tuning_record(self.record(candidate, result))
        with uninterrupted():
            self.context.notify_runner_results(candidates, results)
            self.cost_model.update(self.context, candidates, results)

    def record(self, candidate: ms.MeasureCandidate, result: Measured) -> ms.database.TuningRecord:
        """Return MetaSchedule's record of one candidate."""
        return ms.database.TuningRecord(
            candidate.sch.trace,
            self.workload,
            [value / 1e3 for value in result.run_ms],
            self.target,
            candidate.args_info,
        )

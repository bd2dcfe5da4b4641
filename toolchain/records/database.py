"""MetaSchedule's Database over the store: its searches see what earlier runs measured."""

from __future__ import annotations

import json
from collections.abc import Callable

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import PyDatabase, TuningRecord, Workload
from tvm.target import Target

from toolchain.errors import ToolchainError
from toolchain.records.key import RecordKey, workload_hash
from toolchain.records.record import Provenance, Record
from toolchain.records.store import RecordStore
from toolchain.records.traces import function_json, trace_digest, trace_payload, traced

_MAIN = "main"
_FAILED_S = 1e9


@derived_object
class StoreDatabase(PyDatabase):  # type: ignore[misc]
    """The records of one target on one class of boards.

    Parameters
    ----------
    name
        What the records call their task.
    store
        Where records go and come from.
    target
        What they are tuned for.
    key_for
        Gives the key of a workload hash.
    provenance
        Called for every record that is committed.
    """

    def __init__(
        self,
        name: str,
        store: RecordStore,
        target: Target,
        key_for: Callable[[str], RecordKey],
        provenance: Callable[[], Provenance],
    ) -> None:
        super().__init__()
        self.name = name
        self.store = store
        self.target = target
        self.key_for = key_for
        self.provenance = provenance
        self.workloads: dict[str, Workload] = {}

    def has_workload(self, mod: tvm.ir.IRModule) -> bool:
        """Whether the store knows this function."""
        return self.store.has_workload(workload_hash(mod[_MAIN]))

    def commit_workload(self, mod: tvm.ir.IRModule) -> Workload:
        """Return MetaSchedule's object for a function; the store keeps it with its first record."""
        identity = workload_hash(mod[_MAIN])
        if identity not in self.workloads:
            self.workloads[identity] = Workload(mod)
        return self.workloads[identity]

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Write a record that ran; MetaSchedule's mark for failures, 1e10 s, is left out."""
        seconds = [float(value) for value in record.run_secs or ()]
        if not seconds or max(seconds) >= _FAILED_S:
            return
        func = record.workload.mod[_MAIN]
        identity = workload_hash(func)
        self.store.add(
            Record(
                key=self.key_for(identity),
                function=self.store.add_function(identity, self.name, function_json(func)),
                kind="metaschedule",
                payload=trace_payload(record),
                digest=trace_digest(record.trace),
                provenance=self.provenance(),
                run_ms=tuple(value * 1e3 for value in seconds),
            )
        )

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """Return the fastest records of a function, fastest first."""
        found = self.store.top(self.key_for(workload_hash(workload.mod[_MAIN])), top_k)
        return [record for row in found if (record := self._tuning_record(row, workload))]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Return every record of the functions committed in this process."""
        return [record for workload in self.workloads.values() for record in self.get_top_k(workload, -1)]

    def __len__(self) -> int:
        return len(self.get_all_tuning_records())

    def _tuning_record(self, record: Record, workload: Workload) -> TuningRecord | None:
        try:
            schedule = traced(record.payload, workload.mod[_MAIN])
        except ToolchainError:  # measured on a twin whose blocks have other names: no use to a search
            return None
        arguments = [ArgInfo.from_json(argument) for argument in json.loads(record.payload)["arguments"]]
        seconds = [value / 1e3 for value in record.run_ms]
        return TuningRecord(schedule.trace, workload, seconds, self.target, arguments)

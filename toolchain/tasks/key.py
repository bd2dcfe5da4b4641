"""What the records of a task are kept under."""

from __future__ import annotations

from toolchain.records.key import RecordKey
from toolchain.records.record import Record
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Entry


def record_key(workload: str, target: BoardTarget, record_class: str) -> RecordKey:
    """Return the exact key of a task's records."""
    device = target.recorded_as or target.device
    return RecordKey(workload, target.triple, target.cpu, target.level, target.threads, record_class, device)


def entry_of(record: Record) -> Entry:
    """Return the entry of a record."""
    return Entry(record.kind, record.payload, record.digest)

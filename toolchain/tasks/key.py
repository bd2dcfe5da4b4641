"""What the records of a task are kept under, and which of their times are believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.architectures.least_time import bounding_flops, least_ms
from toolchain.devices.table import peak_flops
from toolchain.records.key import RecordKey
from toolchain.records.record import Record
from toolchain.tasks.candidate import Entry
from toolchain.tasks.task import Task

if TYPE_CHECKING:
    from toolchain.targets.target import BoardTarget


def record_key(workload: str, target: BoardTarget, record_class: str) -> RecordKey:
    """Return the exact key of a task's records."""
    device = target.recorded_as or target.device
    return RecordKey(workload, target.triple, target.cpu, target.level, target.threads, record_class, device)


def least_task_ms(task: Task, key: RecordKey) -> float:
    """Return the milliseconds below which nothing of this kind computes the task."""
    return least_ms(
        bounding_flops(task.flops, [task.name]),
        triple=key.triple,
        cpu=key.cpu,
        level=key.level,
        threads=key.threads,
        peak=peak_flops(key.device),
    )


def unbelievable(record: Record, task: Task) -> bool:
    """Whether what measured a record of the task cannot have been so fast."""
    return record.best_ms is not None and record.best_ms < least_task_ms(task, record.key)


def entry_of(record: Record) -> Entry:
    """Return the entry of a record."""
    return Entry(record.kind, record.payload, record.digest)

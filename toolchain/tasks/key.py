"""The key of a task's records, and the check that a recorded time is possible."""

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


def least_task_ms(task: Task, key: RecordKey, measured: float | None = None) -> float:
    """Return the time in ms that no hardware of this kind can beat for the task.

    Parameters
    ----------
    measured
        Peak FLOP/s that was measured on one core of the board; None: it was not.
    """
    return least_ms(
        bounding_flops(task.flops, [task.name]),
        triple=key.triple,
        cpu=key.cpu,
        level=key.level,
        threads=key.threads,
        peak=peak_flops(key.device),
        measured=measured,
    )


def unbelievable(record: Record, task: Task) -> bool:
    """Whether a record's time is shorter than any hardware of its kind could take for the task."""
    return record.best_ms is not None and record.best_ms < least_task_ms(task, record.key)


def entry_of(record: Record) -> Entry:
    """Return the point in a record as an entry."""
    return Entry(record.kind, record.payload, record.digest)

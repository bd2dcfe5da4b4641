"""The objects that all tasks of a run share, and the records that earlier runs stored of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from toolchain.records.record import PASSING_FAILURES, Provenance, Record, RecordKey
from toolchain.records.store import RecordStore
from toolchain.tasks.candidate import unbelievable
from toolchain.tasks.evaluator import Evaluator
from toolchain.tasks.task import Task
from toolchain.tuning.boards.cases import ExpectedCases
from toolchain.tuning.events import Listener


@dataclass(frozen=True)
class RunContext:
    """Objects that all tasks of a run share.

    Attributes
    ----------
    provenance
        Provenance of the run's records, without the facts about the board that measured.
    fresh
        Whether the results of earlier runs are ignored.
    recorded
        Workload -> point that a build uses today because of a record.
    key_of
        Returns the key of a workload's records.
    numbers
        Numbers the trials of the run, from 0.
    """

    evaluator: Evaluator
    cases: ExpectedCases
    store: RecordStore
    provenance: Provenance
    listener: Listener
    fresh: bool
    key_of: Callable[[str], RecordKey]
    recorded: Mapping[str, Any] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)


def earlier_records(
    store: RecordStore, key: RecordKey, task: Task, *, modelled: bool = False
) -> dict[str, Record]:
    """Return what earlier runs stored of a task: a record of each point, by its digest.

    Parameters
    ----------
    modelled
        Whether modelled times are wanted, and measured ones ignored; else the other way round.
    """
    wanted = store.measured(key)
    rows = [
        row
        for row in store.all(key)
        if row.digest in wanted
        and row.provenance.modelled == modelled
        and row.failure not in PASSING_FAILURES
        and not unbelievable(row, task)
    ]
    # Confirmed records come first, so that trials replace them: they may have been timed in a network, and
    # tuners should learn from times that were all measured alike.
    rows.sort(key=lambda row: not row.confirmed)
    return {row.digest: row for row in rows}

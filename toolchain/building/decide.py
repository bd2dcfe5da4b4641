"""Decides how every task of a network is computed: by a matching record, or by the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

from toolchain.errors import ToolchainError
from toolchain.records.lookup import SHIPPED, Hit, lookup
from toolchain.records.record import Record
from toolchain.records.store import RecordStore
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Network
from toolchain.tasks.candidate import entry_of, record_key, unbelievable
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import P


@dataclass(frozen=True)
class Decision(Generic[P]):
    """The decision how one task is computed.

    Attributes
    ----------
    hit
        The record that is applied; None if none matches.
    point
        The point in the record; None without a record.
    improved
        Whether the point differs from the default.
    warning
        Why a matching record was not applied, even if another one was; empty: none was rejected.
    rule
        Name of the algorithm or schedule of the code, such as `winograd`; empty until the code is made.
    """

    task: Task
    hit: Hit | None = None
    point: P | None = None
    improved: bool = False
    warning: str = ""
    rule: str = ""

    def made_by(self, rule: str) -> Decision[P]:
        """Return the decision with the name of the algorithm or schedule that made its code."""
        return replace(self, rule=rule)

    @property
    def tuned(self) -> bool:
        """Whether a record is applied, even if its point is the default."""
        return self.hit is not None

    def to_json(self) -> dict[str, object]:
        """Return the applied record as `toolchain build --json` prints it; null values without one."""
        record = self.hit.record if self.hit else None
        return {
            "task": self.task.id,
            "name": self.task.name,
            "source": ("shipped" if self.hit.shipped else "own") if self.hit else None,
            "how": self.hit.how if self.hit else None,
            "board": record.provenance.board if record else None,
            "class": record.key.board_class if record else None,
            "cpu": record.key.cpu if record else None,
            "level": record.key.level if record else None,
            "threads": record.key.threads if record else None,
            "ms": record.best_ms if record else None,
            "modelled": record.provenance.modelled if record else None,
        }

    @property
    def source(self) -> str:
        """How well the record's key matches, with `shipped` and `modelled` if they apply.

        Shipped records come with the project; modelled times were not measured. Empty without a record.
        """
        if self.hit is None:
            return ""
        shipped = "shipped, " if self.hit.shipped else ""
        modelled = ", modelled" if self.hit.record.provenance.modelled else ""
        return f"{shipped}{self.hit.how}{modelled}"


def decide_task(
    network: Network[P],
    task: Task,
    store: RecordStore | None,
    target: BoardTarget,
    record_class: str,
    shipped: Path | None = SHIPPED,
) -> Decision[P]:
    """Look up the best record for a task and return the decision.

    Parameters
    ----------
    store
        The user's records; None: use no records at all, not even shipped ones.
    record_class
        The board class whose records are looked up.
    shipped
        The file of records that the project ships; None: use none.
    """
    if store is None:
        return Decision(task)
    space = network.space(task)
    key = record_key(task.workload, target, record_class)
    warning = ""

    def usable(record: Record) -> bool:
        nonlocal warning
        if not unbelievable(record, task):
            return space.usable(record)
        warning = (
            f"skipped a record of board {record.provenance.board}, run {record.provenance.run}: its time of "
            f"{record.best_ms:.3g} ms is impossibly short for {task.flops / 1e6:.4g} MFLOP on such hardware"
        )
        return False

    hit = lookup(store, key, space.kinds, shipped=shipped, usable=usable)
    if hit is None:
        return Decision(task, warning=warning)
    try:
        point = space.read(entry_of(hit.record), hit.definition)
        space.check(point)
    except ToolchainError as error:
        return Decision(task, warning=str(error))
    return Decision(task, hit, point, improved=point != space.default(), warning=warning)


def decide_beside(
    network: Network[Any], store: RecordStore | None, record_class: str, shipped: Path | None = SHIPPED
) -> list[Decision[Any]]:
    """Return the decisions for the tasks that the CPU computes beside a device, by records of the CPU."""
    beside = network.beside
    if beside is None:
        return []
    return [decide_task(beside, task, store, beside.target, record_class, shipped) for task in beside.tasks]


def recorded_points(
    network: Network[Any], tasks: Sequence[Task], store: RecordStore, target: BoardTarget, record_class: str
) -> Mapping[str, Any]:
    """Return the points that a build uses today, by workload, from the user's and the shipped records."""
    return points([decide_task(network, task, store, target, record_class) for task in tasks])


def points(decisions: list[Decision[Any]]) -> Mapping[str, Any]:
    """Return the points of the tasks that have a record, by workload."""
    return {decision.task.workload: decision.point for decision in decisions if decision.tuned}

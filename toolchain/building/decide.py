"""What decides how every task of a network is computed: a record that matches, or the default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

from toolchain.errors import ToolchainError
from toolchain.records.lookup import Hit, lookup
from toolchain.records.record import Record
from toolchain.records.shipped.file import SHIPPED
from toolchain.records.store import RecordStore
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Network
from toolchain.tasks.key import entry_of, record_key, unbelievable
from toolchain.tasks.space import P
from toolchain.tasks.task import Task


@dataclass(frozen=True)
class Decision(Generic[P]):
    """What decided how one task is computed.

    Attributes
    ----------
    hit
        The record that was applied; None: no record matched.
    point
        What the record says; None without one.
    improved
        The record decided for other code than a build makes without one.
    warning
        Why a matching record was not applied, be it for another one; empty when all is well.
    rule
        What the code was made by, once it is made: `winograd`, `rows` …
    """

    task: Task
    hit: Hit | None = None
    point: P | None = None
    improved: bool = False
    warning: str = ""
    rule: str = ""

    def made_by(self, rule: str) -> Decision[P]:
        """Return the decision with what its code was made by."""
        return replace(self, rule=rule)

    @property
    def tuned(self) -> bool:
        """A matching record decided, be it for the default."""
        return self.hit is not None

    def to_json(self) -> dict[str, object]:
        """Return which record decided, as `toolchain build --json` prints it; null where none did."""
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
        """How near the record is; `shipped`: the project brought it; `modelled`: no clock has shown its time.

        Empty without a record.
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
    """Return what decides for a task of a network.

    Parameters
    ----------
    store
        The user's records; None: none, nor those that the project ships.
    record_class
        The board class under which records are looked up.
    shipped
        The file of records that the project ships; None: leave it out.
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
            f"skipped a record of board {record.provenance.board}, run {record.provenance.run}: it says "
            f"{record.best_ms:.3g} ms, and nothing of its kind computes {task.flops / 1e6:.4g} MFLOP so fast"
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
    """Return what decides for what the CPU computes beside a network's device: records of the CPU."""
    beside = network.beside
    if beside is None:
        return []
    return [decide_task(beside, task, store, beside.target, record_class, shipped) for task in beside.tasks]


def points(decisions: list[Decision[Any]]) -> Mapping[str, Any]:
    """Return how the tasks are computed that a record decided for, by their workloads."""
    return {each.task.workload: each.point for each in decisions if each.tuned}

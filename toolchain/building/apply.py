"""Choosing a schedule for every function of a fused network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tvm
from tvm import tirx

from toolchain.building.defaults import default_schedule
from toolchain.building.tasks import Task
from toolchain.errors import ToolchainError
from toolchain.records.lookup import Hit
from toolchain.records.record import DEFAULT
from toolchain.records.traces import schedule_from


@dataclass(frozen=True)
class Choice:
    """What decided the schedule of one task.

    Attributes
    ----------
    hit
        The record that was applied; None: no record matched.
    warning
        Why a matching record was not applied; empty when all is well.
    """

    task: Task
    hit: Hit | None
    warning: str = ""

    @property
    def tuned(self) -> bool:
        """A matching record decided, be it for the default schedule."""
        return self.hit is not None

    @property
    def improved(self) -> bool:
        """A matching record decided for another schedule than the default."""
        return self.hit is not None and self.hit.record.kind != DEFAULT

    @property
    def source(self) -> str:
        """How near the record is, `shipped` where the project brought it; empty without one."""
        if self.hit is None:
            return ""
        return f"shipped, {self.hit.how}" if self.hit.shipped else self.hit.how


def schedule(
    fused: tvm.IRModule, tasks: list[Task], find: Callable[[str], Hit | None]
) -> tuple[tvm.IRModule, list[Choice]]:
    """Schedule every function, by its record or by default.

    Parameters
    ----------
    find
        Workload hash -> the record that applies.

    Returns
    -------
    tuple
        The scheduled module (a new one), and per task what decided.
    """
    functions = dict(fused.functions)
    choices = []
    for task in tasks:
        choice, scheduled = _schedule_task(fused, task, find(task.workload))
        choices.append(choice)
        functions.update({fused.get_global_var(name): func for name, func in scheduled.items()})
    return tvm.IRModule(functions, attrs=fused.attrs), choices


def _schedule_task(
    fused: tvm.IRModule, task: Task, hit: Hit | None
) -> tuple[Choice, dict[str, tirx.PrimFunc]]:
    warning = ""
    if hit is not None and hit.record.kind != DEFAULT:
        try:
            applied = {
                name: schedule_from(hit.record.payload, hit.function, fused[name]) for name in task.functions
            }
            return Choice(task, hit), applied
        except ToolchainError as error:
            warning, hit = str(error), None
    return Choice(task, hit, warning), {name: default_schedule(fused[name]) for name in task.functions}

"""What computes every function of a fused network: by its record, or by default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tvm
from tvm import tirx

from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.algorithms.policy import default_choice, recorded_choice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.rewrite import ROWS, Render, generated, rewrite
from toolchain.backends.packed.recognise.work import Work
from toolchain.backends.tensorir.kinds import DEFAULT
from toolchain.backends.tensorir.traces import schedule_from
from toolchain.errors import ToolchainError
from toolchain.lowering.rows import default_schedule
from toolchain.lowering.tasks import Task
from toolchain.records.lookup import Hit


@dataclass(frozen=True)
class Decision:
    """What decided how one task is computed.

    Attributes
    ----------
    hit
        The record that was applied; None: no record matched.
    warning
        Why a matching record was not applied; empty when all is well.
    rule
        What the code was made by: an algorithm of `cpu.choice`, `rows`, or `metaschedule`: a trace.
    improved
        A matching record decided for other code than a build makes without one.
    """

    task: Task
    hit: Hit | None
    warning: str = ""
    rule: str = ROWS
    improved: bool = False

    @property
    def tuned(self) -> bool:
        """A matching record decided, be it for the default schedule."""
        return self.hit is not None

    @property
    def source(self) -> str:
        """How near the record is, `shipped` where the project brought it; empty without one."""
        if self.hit is None:
            return ""
        return f"shipped, {self.hit.how}" if self.hit.shipped else self.hit.how


def schedule(
    fused: tvm.IRModule, tasks: list[Task], find: Callable[[str], Hit | None]
) -> tuple[tvm.IRModule, list[Decision]]:
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
    decisions = []
    for task in tasks:
        decision, scheduled = _schedule_task(fused, task, find(task.workload))
        decisions.append(decision)
        functions.update({fused.get_global_var(name): func for name, func in scheduled.items()})
    return tvm.IRModule(functions, attrs=fused.attrs), decisions


def pack(
    fused: tvm.IRModule,
    tasks: list[Task],
    find: Callable[[str], Hit | None],
    machine: Machine,
    winograd: bool,
    render: Render = generated,
) -> tuple[tvm.IRModule, list[Decision]]:
    """Generate packed code for every function, by its record or by default.

    Parameters
    ----------
    find
        Workload hash -> the record that applies.
    winograd
        Whether convolutions may be computed by winograd.
    render
        What stands in the network for a generated function.

    Returns
    -------
    tuple
        The network (a new module), and per task what decided.
    """
    hits = {task.workload: find(task.workload) for task in tasks}
    workload_of = {name: task.workload for task in tasks for name in task.functions}
    warnings: dict[str, str] = {}
    improved: set[str] = set()

    def choose(name: str | None, work: Work) -> Choice:
        default = default_choice(work, machine, winograd)
        if name is None:
            return default
        workload = workload_of[name]
        hit = hits[workload]
        if hit is None:
            return default
        try:
            choice = recorded_choice(hit.record.payload, work, machine, winograd)
        except ToolchainError as error:
            warnings[workload], hits[workload] = str(error), None
            return default
        if choice != default:
            improved.add(workload)
        return choice

    made = rewrite(fused, machine, choose, lambda name: default_schedule(fused[name]), render)
    decisions = [
        Decision(
            task,
            hits[task.workload],
            warnings.get(task.workload, ""),
            made.rules.get(task.name, ROWS),
            task.workload in improved,
        )
        for task in tasks
    ]
    return made.module, decisions


def _schedule_task(
    fused: tvm.IRModule, task: Task, hit: Hit | None
) -> tuple[Decision, dict[str, tirx.PrimFunc]]:
    warning = ""
    if hit is not None and hit.record.kind != DEFAULT:
        try:
            payload, measured = hit.record.payload, hit.definition
            applied = {name: schedule_from(payload, measured, fused[name]) for name in task.functions}
            return Decision(task, hit, rule=hit.record.kind, improved=True), applied
        except ToolchainError as error:
            warning, hit = str(error), None
    return Decision(task, hit, warning), {name: default_schedule(fused[name]) for name in task.functions}

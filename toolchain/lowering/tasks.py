"""The tunable functions of a fused network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.s_tir.analysis import estimate_tir_flops

from toolchain.errors import UsageError
from toolchain.lowering.pipeline import fuse
from toolchain.lowering.workload import workload_hash
from toolchain.models.load import Model
from toolchain.profiles import Profile
from toolchain.targets.target import target_for

ID_LENGTH = 8


@dataclass(frozen=True)
class Task:
    """One distinct fused function of a network.

    Attributes
    ----------
    workload
        Structural hash of the function; the first digits are the id that users see.
    name
        TVM's name of the first function with that hash.
    weight
        How often the network calls it.
    flops
        Floating-point operations of one call, a multiply and an add counted as two.
    functions
        Names of all functions with that hash.
    call
        One of the network's calls: of the function `name`, with its constants.
    shapes
        Of the parameters, outputs last.
    outputs
        How many of the parameters are written.
    """

    workload: str
    name: str
    weight: int
    flops: int
    shapes: tuple[tuple[int, ...], ...]
    outputs: int
    functions: tuple[str, ...]
    func: tirx.PrimFunc
    call: relax.Call

    @property
    def id(self) -> str:
        """The first digits of the workload's hash."""
        return self.workload[:ID_LENGTH]

    def to_json(self) -> dict[str, object]:
        """Return the task as `toolchain tasks --json` prints it."""
        return {
            "id": self.id,
            "name": self.name,
            "weight": self.weight,
            "flops": self.flops,
            "shapes": [list(shape) for shape in self.shapes],
        }


def tasks_for(model: Model, profile: Profile, cluster: str | None = None) -> list[Task]:
    """Return the tasks of a model on a class's cluster (None: the first)."""
    target = target_for(profile, cluster, dtype=model.options.dtype)
    return extract_tasks(fuse(model.module, target.target, model.options.layout))


def extract_tasks(fused: tvm.IRModule) -> list[Task]:
    """Return the tasks of a network, the heaviest (weight x flops) first."""
    calls = _calls(fused)
    groups: dict[str, list[str]] = {}
    for name in sorted(calls):
        groups.setdefault(workload_hash(fused[name]), []).append(name)
    tasks = []
    for workload, names in groups.items():
        func = fused[names[0]]
        tasks.append(
            Task(
                workload=workload,
                name=names[0],
                weight=sum(len(calls[name]) for name in names),
                flops=int(estimate_tir_flops(tvm.IRModule({"main": func}))),
                shapes=_shapes(names[0], func),
                outputs=_outputs(calls[names[0]][0]),
                functions=tuple(names),
                func=func,
                call=calls[names[0]][0],
            )
        )
    return sorted(tasks, key=lambda task: (-task.weight * task.flops, task.name))


def _shapes(name: str, func: tirx.PrimFunc) -> tuple[tuple[int, ...], ...]:
    extents = [list(parameter.shape) for parameter in func.params]
    if not all(isinstance(extent, tirx.IntImm) for shape in extents for extent in shape):
        raise UsageError(
            f"the network cannot be compiled: a shape in its part {name} depends on the data",
            "export the network without operators such as NonMaxSuppression and NonZero",
        )
    return tuple(tuple(int(extent) for extent in shape) for shape in extents)


def tasks_named(tasks: list[Task], ids: Sequence[str], option: str) -> list[Task]:
    """Return the tasks whose ids begin with one of `ids`; all for none.

    Parameters
    ----------
    option
        Where the ids were typed, for the error.

    Raises
    ------
    UsageError
        One is unknown, or means several tasks.
    """
    if not ids:
        return tasks
    wanted = set()
    for given in ids:
        found = [task for task in tasks if task.workload.startswith(given)]
        if len(found) != 1:
            listed = ", ".join(f"{task.id} ({task.name})" for task in found or tasks)
            problem = "means several tasks" if found else "is no task of this network"
            raise UsageError(f"{option} {given}: {problem}: {listed}", "`toolchain tasks` lists them")
        wanted.add(found[0].workload)
    return [task for task in tasks if task.workload in wanted]


def _calls(fused: tvm.IRModule) -> dict[str, list[relax.Call]]:
    """Return the calls of every function, by its name."""
    calls: dict[str, list[relax.Call]] = {}
    call_tir = tvm.ir.Op.get("relax.call_tir")

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.Call) and node.op == call_tir:
            calls.setdefault(node.args[0].name_hint, []).append(node)

    for function in fused.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return calls


def _outputs(call: relax.Call) -> int:
    return len(call.ty.fields) if isinstance(call.ty, relax.TupleType) else 1

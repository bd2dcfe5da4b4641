"""A model lowered to calls of fused functions: the first step of all backends on TVM."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import tvm
from tvm import relax, s_tir, te

from toolchain.arrays import Array
from toolchain.bundles.manifest import RuntimeNeeds
from toolchain.configuration.settings import settings
from toolchain.lowering.functions.tasks import FusedTask, extract_tasks, plain_function
from toolchain.lowering.graph.half import halved
from toolchain.lowering.graph.pipeline import fuse, lower_fused
from toolchain.lowering.graph.shapes import with_shapes
from toolchain.lowering.kernels.code import code_of
from toolchain.lowering.kernels.compilers import FunctionCompilers
from toolchain.lowering.kernels.kernels import Kernels
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.lowering.kernels.store import ObjectStore
from toolchain.models.load import Model
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Progress
from toolchain.tasks.candidate import Candidate, Entry, Known, Parameter, Probe, TaskReference
from toolchain.tasks.task import Task

# The known-good function that checks boards: a chain of products and sums.

_LENGTH = 1024
# Steps for each element, so that the core's arithmetic decides the time. The sum of two vectors takes twice
# as long in one process as in another, depending on the addresses of their memory (58 and 112 ns).
_STEPS = 32
_GROUP = 64  # work items in a group, which every device supports
_FACTOR = 0.75  # a step is x = 0.75 x + b
_VECTOR = Parameter((_LENGTH,), "float32")
_TASK = Known("known-good-kernel", "chain of products and sums", 1, 2 * _STEPS * _LENGTH, ((_LENGTH,),) * 3)


@dataclass(frozen=True)
class ChainReference:
    """Computes the chain with numpy; see `tasks.reference.TaskReference`."""

    parameters: tuple[Parameter, ...] = (_VECTOR, _VECTOR)

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Compute the results of the chains."""
        return [[_chain(a, b)] for a, b in draws]


def _chain(a: Array, b: Array) -> Array:
    x = a
    for _ in range(_STEPS):
        x = x * np.float32(_FACTOR) + b
    return x


def probe_for(target: BoardTarget) -> Probe:
    """Return the probe for a target; on a device it has a work item for each element."""
    a, b = (te.placeholder((_LENGTH,), name=name) for name in "ab")

    def chain(i: tvm.tirx.Var) -> tvm.tirx.PrimExpr:
        x = a[i]
        for _ in range(_STEPS):
            x = x * _FACTOR + b[i]
        return x

    func = te.create_prim_func([a, b, te.compute((_LENGTH,), chain, name="chain")])
    if target.limits:
        func = _in_groups(func, min(_GROUP, target.limits.max_work_group or 1))
    code = code_of(Scheduled(func), target.target)
    candidate = Candidate(Entry("probe", "", "probe"), code, (_VECTOR,) * 3, 1, target.kind)
    return Probe(_TASK, candidate, ChainReference())


def _in_groups(func: tvm.tirx.PrimFunc, group: int) -> tvm.tirx.PrimFunc:
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    (loop,) = schedule.get_loops("chain")
    groups, items = schedule.split(loop, [None, group])
    schedule.bind(groups, "blockIdx.x")
    schedule.bind(items, "threadIdx.x")
    made: tvm.tirx.PrimFunc = schedule.mod["main"]
    return made


LARGE = 50
"""Least number of nodes of a network that takes longer to compile than a worker takes to start."""


class FusedNetwork:
    """The unscheduled functions of a model, and the processes that compile them once they are scheduled.

    Parameters
    ----------
    layout
        Layout of convolutions: NCHW or NHWC.
    options
        Text that identifies the options that affect the code, besides the model and the target.
    changed
        Returns the network with operators of the machine's own in place of others.
    compiles
        Whether the network will be compiled: then the processes are started now if it is large and was not
        built before.
    """

    beside: None = None
    unjudgeable_reason = ""  # each function is an operator of a profile

    def __init__(
        self,
        model: Model,
        target: BoardTarget,
        layout: str,
        options: str,
        *,
        changed: Callable[[tvm.ir.IRModule], tvm.ir.IRModule] | None = None,
        compiles: bool,
    ) -> None:
        self.target = target
        self._store = ObjectStore()
        self._built = _name(model, target, options)
        self._large = len(model.onnx.graph.node) >= LARGE
        self._compilers = FunctionCompilers(settings().jobs, str(target.target))
        try:
            if compiles and self._large and self._store.get(self._built) is None:
                self._compilers.start()
            module = changed(model.module) if changed else model.module
            if target.dtype == "float16":
                module = halved(module, model.source)
            self.fused = fuse(module, target.target, layout)
            self.tasks = extract_tasks(self.fused)
        except BaseException:
            self.close()
            raise

    def kernels(self, progress: Progress) -> Kernels:
        """Return the object that compiles the network's functions and keeps their objects."""
        return Kernels(self.target.target, self._compilers, self._store, progress)

    def export(
        self, scheduled: tvm.IRModule, kernels: Kernels, folder: Path, progress: Progress
    ) -> tuple[Path, ...]:
        """Write the objects of the network, whose functions are scheduled, into `folder`."""
        files = kernels.export(lower_fused(with_shapes(scheduled), self.target.target), folder)
        if self._large:
            self._store.put(self._built, b"")
        if self._store.refused:
            progress(f"warning: compiled functions cannot be kept for the next build: {self._store.refused}")
        return files

    def workloads(self, named: Mapping[str, str]) -> dict[str, str]:
        """Return the workload of each function of the compiled network that computes a task, by its name.

        Parameters
        ----------
        named
            Name of a function in the compiled network -> name of the fused function.
        """
        own = {name: task.workload for task in self.tasks for name in task.functions}
        return {now: own[fused] for now, fused in named.items() if fused in own}

    def fused_task(self, task: Task) -> FusedTask:
        """Return one of the network's tasks with its function."""
        return next(each for each in self.tasks if each.workload == task.workload)

    def reference(self, task: Task) -> TaskReference:
        """Return the reference that computes a task's definition."""
        return plain_function(self.fused_task(task))

    def probe(self) -> Probe | None:
        """Return a known-good function: a chain of products and sums."""
        return probe_for(self.target)

    def listing(self, task: Task) -> str:
        """Return a task's function as TVM prints it."""
        return str(self.fused_task(task).func.script())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ended: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes that compile functions."""
        self._compilers.close()


def _name(model: Model, target: BoardTarget, options: str) -> str:
    """Return the cache key that marks a network as built, so that almost nothing is left to compile."""
    what = f"{model.sha256} {model.options!r} {options} {target.target}"
    return f"network_{hashlib.sha256(what.encode()).hexdigest()[:32]}"


OURS = "edge."
"""Prefix of the names of edge-rt's own packed functions; every edge-rt has those of TVM's runtime."""


def needs_of(target: BoardTarget, module: tvm.IRModule) -> RuntimeNeeds:
    """Return the needs of a network: its device, if any, and the functions of edge-rt that it calls."""
    called: set[str] = set()

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.ExternFunc) and str(node.global_symbol).startswith(OURS):
            called.add(str(node.global_symbol))

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    devices = (target.limits.kind,) if target.limits else ()
    return RuntimeNeeds(devices=devices, functions=tuple(sorted(called)))

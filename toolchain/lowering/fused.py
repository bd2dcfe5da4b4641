"""A model as calls of fused functions, on its way to objects: what every backend on TVM begins with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import tvm
from tvm import relax

from toolchain.bundles.manifest import RuntimeNeeds
from toolchain.configuration.settings import settings
from toolchain.lowering.functions.plain import plain_function
from toolchain.lowering.functions.tasks import FusedTask, extract_tasks
from toolchain.lowering.graph.half import halved
from toolchain.lowering.graph.pipeline import fuse, lower_fused
from toolchain.lowering.kernels.compilers import Compilers
from toolchain.lowering.kernels.kernels import Kernels
from toolchain.lowering.kernels.store import ObjectStore
from toolchain.lowering.probe import probe_for
from toolchain.models.load import Model
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Progress
from toolchain.tasks.reference import Probe, Reference
from toolchain.tasks.task import Task

LARGE = 50
"""Nodes of a network whose functions take longer to compile than a process to start."""


class FusedNetwork:
    """The functions of a model, unscheduled, and the processes that compile what becomes of them.

    Parameters
    ----------
    layout
        Of convolutions: NCHW or NHWC.
    options
        What changes the code beyond the model and the target, in words.
    compiles
        The network will be compiled: the processes are started now if it is large and was not built before.
    """

    beside: None = None
    unjudgeable_reason = ""  # each function is an operator of a profile

    def __init__(
        self, model: Model, target: BoardTarget, layout: str, options: str, *, compiles: bool
    ) -> None:
        self.target = target
        self._store = ObjectStore()
        self._built = _name(model, target, options)
        self._large = len(model.onnx.graph.node) >= LARGE
        self._compilers = Compilers(settings().jobs, str(target.target))
        try:
            if compiles and self._large and self._store.get(self._built) is None:
                self._compilers.start()
            module = halved(model.module, model.source) if target.dtype == "float16" else model.module
            self.fused = fuse(module, target.target, layout)
            self.tasks = extract_tasks(self.fused)
        except BaseException:
            self.close()
            raise

    def kernels(self, progress: Progress) -> Kernels:
        """Return what compiles the network's functions."""
        return Kernels(self.target.target, self._compilers, self._store, progress)

    def export(
        self, scheduled: tvm.IRModule, kernels: Kernels, folder: Path, progress: Progress
    ) -> tuple[Path, ...]:
        """Write the objects of the network, its functions scheduled by now, into `folder`."""
        files = kernels.export(lower_fused(scheduled, self.target.target), folder)
        if self._large:
            self._store.put(self._built, b"")
        if self._store.refused:
            progress(f"warning: what was compiled cannot be kept for the next build: {self._store.refused}")
        return files

    def workloads(self, named: Mapping[str, str]) -> dict[str, str]:
        """Return the task's workload for each function of the compiled network that computes one.

        Parameters
        ----------
        named
            What it is called there -> what the fused function is called.
        """
        own = {name: task.workload for task in self.tasks for name in task.functions}
        return {now: own[fused] for now, fused in named.items() if fused in own}

    def fused_task(self, task: Task) -> FusedTask:
        """Return one of the network's tasks with its function."""
        return next(each for each in self.tasks if each.workload == task.workload)

    def reference(self, task: Task) -> Reference:
        """Return a task's function as it is defined."""
        return plain_function(self.fused_task(task))

    def probe(self) -> Probe | None:
        """Return a chain of products and sums."""
        return probe_for(self.target)

    def listing(self, task: Task) -> str:
        """Return a task's function as TVM prints it."""
        return str(self.fused_task(task).func.script())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ended: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        self._compilers.close()


def _name(model: Model, target: BoardTarget, options: str) -> str:
    """Return the name under which it is kept that a network was built: then next to nothing is compiled."""
    what = f"{model.sha256} {model.options!r} {options} {target.target}"
    return f"network_{hashlib.sha256(what.encode()).hexdigest()[:32]}"


OURS = "edge."
"""What names of edge-rt's own packed functions begin with; every edge-rt has those of TVM's runtime."""


def needs_of(target: BoardTarget, module: tvm.IRModule) -> RuntimeNeeds:
    """Return what a network needs of the program that runs it.

    A device, if one computes, and the functions of edge-rt that the network calls.
    """
    called: set[str] = set()

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.ExternFunc) and str(node.global_symbol).startswith(OURS):
            called.add(str(node.global_symbol))

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    devices = (target.limits.kind,) if target.limits else ()
    return RuntimeNeeds(devices=devices, functions=tuple(sorted(called)))

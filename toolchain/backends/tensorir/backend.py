"""The backend `tensorir`: plain loops with default schedules or those of MetaSchedule."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import tvm

from toolchain.backends.tensorir.evolutionary import Evolutionary, Lessons, cost_model
from toolchain.backends.tensorir.space import Schedules, TraceSpace
from toolchain.devices.device import CPU
from toolchain.errors import UsageError
from toolchain.lowering.fused import FusedNetwork, needs_of
from toolchain.lowering.graph.shapes import copied_constants
from toolchain.lowering.kernels.listing import list_code
from toolchain.lowering.modelled import device_runners
from toolchain.models.load import Model
from toolchain.profiles import Profile
from toolchain.targets.target import BoardTarget, device_target, target_for
from toolchain.tasks.backend import MakeTuner, Objects, OffBoards, Progress
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.space import Space
from toolchain.tasks.task import Task


class TensorIR:
    """The backend with scheduled TensorIR on plain values; see `tasks.backend.Backend`."""

    name = "tensorir"
    runner = "boards"

    def __init__(self, profile: Profile, options: CodeOptions) -> None:
        if options.dtype != "float32":
            raise UsageError(
                f"--dtype {options.dtype}: there is no code for it in --layout {options.layout}",
                "leave --layout out",
            )
        self.profile, self.options, self.dtype = profile, options, options.dtype
        self.layout = options.layout
        self.runners: Mapping[str, OffBoards] = device_runners(
            profile, options.device_kind, options.device_name
        )

    def target(
        self, cluster: str | None = None, threads: int | None = None, *, integers: bool = False
    ) -> BoardTarget:
        """Return the target of the scheduled code, which computes integers as any other numbers."""
        del integers
        kind, name = self.options.device_kind, self.options.device_name
        if kind == CPU:
            return target_for(self.profile, cluster, threads)
        return device_target(self.profile, kind, name, cluster, threads, arch=self.options.arch)

    def lower(self, model: Model, target: BoardTarget, *, compiles: bool = False) -> TensorIRNetwork:
        """Return the fused network of a model, with its tasks."""
        return TensorIRNetwork(model, target, self.layout, compiles=compiles)


class TensorIRNetwork(FusedNetwork):
    """A fused network that is not scheduled yet; see `tasks.backend.Network`."""

    tuner = "evolutionary"

    def __init__(self, model: Model, target: BoardTarget, layout: str, *, compiles: bool) -> None:
        super().__init__(model, target, layout, f"tensorir {layout}", compiles=compiles)
        self.tuners: Mapping[str, MakeTuner[Schedules]] = {"evolutionary": self._evolutionary}
        self._spaces: dict[str, TraceSpace] = {}

    def space(self, task: Task) -> TraceSpace:
        """Return the space of a task; always the same object, which caches the schedules it has applied."""
        if task.workload not in self._spaces:
            self._spaces[task.workload] = TraceSpace(self.fused_task(task), self.target)
        return self._spaces[task.workload]

    def code(self, task: Task, point: Schedules, form: str) -> str:
        """Return the code of a scheduled function."""
        func = self.space(task).scheduled(point, self.fused_task(task).func)
        return list_code(func, self.target.target, form)

    def compile(self, points: Mapping[str, Schedules], folder: Path, progress: Progress) -> Objects:
        """Write the objects of the network."""
        functions = dict(self.fused.functions)
        rules = {}
        for task in self.tasks:
            space = self.space(task)
            point = points.get(task.workload, space.default())
            rules[task.name] = space.rule(point)
            for name in task.functions:
                functions[self.fused.get_global_var(name)] = space.scheduled(point, self.fused[name])
        module = tvm.IRModule(functions, attrs=self.fused.attrs)
        files = self.export(module, self.kernels(progress), folder, progress)
        return Objects(
            files,
            rules,
            self.workloads({name: name for task in self.tasks for name in task.functions}),
            needs_of(self.target, module),
            copied=copied_constants(module),
            products=dict.fromkeys(rules, self.target.dtype),
        )

    @cached_property
    def _lessons(self) -> Lessons:
        return Lessons(cost_model())

    def _evolutionary(self, task: Task, space: Space[Schedules], seed: int) -> Evolutionary:
        del space  # always a TraceSpace, which `self.space` returns again
        return Evolutionary(self.space(task), self._lessons, seed)

"""The backend `packed`: our own code generators for CPUs, and for devices that run work items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import tvm

from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.network.alone import alone
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.measured import measured
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.backends.packed.space import PackedSpace
from toolchain.devices.device import CPU
from toolchain.lowering.functions.tasks import plain_function
from toolchain.lowering.fused import FusedNetwork, needs_of
from toolchain.lowering.graph.constants import fold_constants
from toolchain.lowering.graph.fused_sums import with_fused_sums
from toolchain.lowering.graph.integers import with_integers
from toolchain.lowering.graph.rebuilt import with_products, with_tables_of_bytes
from toolchain.lowering.graph.shapes import copied_constants
from toolchain.lowering.graph.signed import SIGNED, with_signed_values
from toolchain.lowering.kernels.listing import list_code
from toolchain.lowering.modelled import device_runners
from toolchain.lowering.schedules.gpu_defaults import device_schedule
from toolchain.models.load import Model
from toolchain.profiles import Profile
from toolchain.quantities import counted
from toolchain.targets.target import BoardTarget, device_target, target_for
from toolchain.tasks.backend import MakeTuner, Objects, Progress
from toolchain.tasks.candidate import Parameter, TaskReference
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.task import Task


class Packed:
    """The backend with our own code generators; see `tasks.backend.Backend`."""

    name = "packed"
    layout = "packed"
    runner = "boards"

    def __init__(self, profile: Profile, options: CodeOptions) -> None:
        self.profile, self.options, self.dtype = profile, options, options.dtype
        self.winograd = options.winograd != "off"
        self.runners = device_runners(profile, options.device_kind, options.device_name)

    def target(
        self, cluster: str | None = None, threads: int | None = None, *, integers: bool = False
    ) -> BoardTarget:
        """Return the target of the generated code."""
        kind, name = self.options.device_kind, self.options.device_name
        if kind == CPU:
            return target_for(self.profile, cluster, threads, self.options.floats, integers=integers)
        floats, arch = self.options.floats, self.options.arch
        return device_target(self.profile, kind, name, cluster, threads, floats, arch)

    def lower(self, model: Model, target: BoardTarget, *, compiles: bool = False) -> PackedNetwork:
        """Return the fused network of a model, with its tasks."""
        return PackedNetwork(model, target, self.winograd, compiles=compiles)


class PackedNetwork(FusedNetwork):
    """A fused network whose code is not generated yet; see `tasks.backend.Network`."""

    tuner = "gridsearch"  # spaces are small, and their best points come first

    def __init__(self, model: Model, target: BoardTarget, winograd: bool, *, compiles: bool) -> None:
        machine = machine_of(target, integers=model.integral)
        changed = partial(in_integers, machine=machine) if model.integral else with_products
        super().__init__(model, target, "NCHW", f"packed {winograd}", changed=changed, compiles=compiles)
        self.choices = Choices(machine, winograd)
        if target.limits is not None:
            self.choices = replace(self.choices, unread=partial(device_schedule, target=target.target))
        self.tuners: Mapping[str, MakeTuner[Choice]] = {}

    def space(self, task: Task) -> PackedSpace:
        """Return the space of a task's choices."""
        return PackedSpace(self.fused_task(task), self.target, self.choices)

    def reference(self, task: Task) -> TaskReference:
        """Return the reference that computes the definition of what a task's candidates compute."""
        return plain_function(measured(self.fused_task(task), self.choices))

    def code(self, task: Task, point: Choice, form: str) -> str:
        """Return the code of a choice; TensorIR follows comments with machine, choice and layouts."""
        own, machine = self.fused_task(task), self.choices.machine
        made = alone(own, replace(self.choices, decided={own.name: point}))
        text = list_code(made.func, self.target.target, form)
        if form != "tir":
            return text
        lines = [
            f"# {machine.isa}: {counted(machine.lanes, 'lane')}, {counted(machine.threads, 'thread')}",
            f"# {point}",
        ]
        lines += [f"# {each.shape} {each.dtype}: {_said(each)}" for each in made.parameters]
        return "\n".join([*lines, text])

    def compile(self, points: Mapping[str, Choice], folder: Path, progress: Progress) -> Objects:
        """Write the objects of the network; functions are compiled while others are still being planned."""
        decided: dict[str, Choice] = {
            name: points[task.workload]
            for task in self.tasks
            for name in task.functions
            if task.workload in points
        }
        kernels = self.kernels(progress)
        made = rewrite(self.fused, replace(self.choices, decided=decided), kernels.submit)
        files = self.export(made.module, kernels, folder, progress)
        workloads = self.workloads(made.named)
        needs, copied = needs_of(self.target, made.module), copied_constants(made.module)
        return Objects(files, made.rules, workloads, needs, made.transformed, copied, made.products)


def in_integers(module: tvm.ir.IRModule, machine: Machine) -> tvm.ir.IRModule:
    """Return a quantised network with what the machine has for it."""
    if machine.integers:
        module = fold_constants(module)
        if machine.integers.keys() == {SIGNED}:
            module = with_signed_values(module)
        module = with_integers(module, machine.integers, machine.least, depthwise=machine.channels_of_bytes)
    if not machine.pieces.fine:
        module = with_tables_of_bytes(module, machine.lanes)
    return with_fused_sums(module) if machine.fuses else module


def _said(parameter: Parameter) -> str:
    constant = "" if parameter.value is None else "a constant, "
    return constant + ("plain" if parameter.layout is None else str(parameter.layout))

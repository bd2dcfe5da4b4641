"""The backend `vta`: integer convolutions become VTA programs, the CPU computes the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.backend import PackedNetwork
from toolchain.backends.vta.model_runner import TRIAL_S, VTA_MODEL, model_evaluator
from toolchain.backends.vta.offload import Offload
from toolchain.backends.vta.probe import probe_for
from toolchain.backends.vta.space import VtaSpace
from toolchain.backends.vta.task import VtaReference, VtaTask, tasks_of
from toolchain.bundles.manifest import RuntimeNeeds
from toolchain.devices.device import VTA
from toolchain.errors import UsageError
from toolchain.models.load import Model
from toolchain.profiles import Profile
from toolchain.targets.target import BoardTarget, target_for
from toolchain.tasks.backend import MakeTuner, Objects, OffBoards, Progress
from toolchain.tasks.evaluator import Evaluator
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.reference import Probe
from toolchain.tasks.task import Task
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.blob import blob_of
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design.config import VtaConfig
from toolchain.vta.layers.knobs import Knobs
from toolchain.vta.layers.layer import ConvShape
from toolchain.vta.layers.region import Region, RegionLayer
from toolchain.vta.reading import find_config

_DRIVERS = ("pynq", "sim")  # native/src/vta/run/drivers.cc


class Vta:
    """The backend with programs for a VTA, made ahead of time; see `tasks.backend.Backend`."""

    name = "vta"
    layout = "packed"
    runner = VTA_MODEL

    def __init__(self, profile: Profile, options: CodeOptions) -> None:
        if options.dtype != "int8":
            raise UsageError(
                f"--device {options.device}: a VTA computes in 8-bit integers, not in {options.dtype}",
                "add --dtype int8",
            )
        if options.device_name not in ("", *_DRIVERS):
            raise UsageError(
                f"--device {options.device}: a VTA has no driver of this name",
                f"use one of: {', '.join(f'{VTA}:{name}' for name in _DRIVERS)}; or {VTA} alone",
            )
        self.profile, self.options, self.dtype = profile, options, options.dtype
        self.config = find_config(profile.device(VTA).config or "")
        self.runners: Mapping[str, OffBoards] = {VTA_MODEL: OffBoards(self._evaluator, TRIAL_S)}

    def target(
        self, cluster: str | None = None, threads: int | None = None, *, integers: bool = False
    ) -> BoardTarget:
        """Return the target of the CPU's part, with the VTA design as the device of records."""
        del integers  # the VTA multiplies them
        cores = target_for(self.profile, cluster, threads)
        name = self.options.device_name
        return replace(
            cores, device=f"{VTA}:{name}" if name else VTA, recorded_as=f"{VTA}:{self.config.bitstream}"
        )

    def lower(self, model: Model, target: BoardTarget, *, compiles: bool = False) -> VtaNetwork:
        """Return the network of a model, with its tasks."""
        del compiles  # the CPU's part is lowered when the programs are known
        if model.others:
            raise UsageError(
                f"--device vta: {model.name} is asked for in {len(model.shapes)} shapes, and programs for "
                "a VTA are of one",
                "give one shape, or build for --device cpu",
            )
        return VtaNetwork(model, target, self.config, self.options)

    @contextmanager
    def _evaluator(self, target: BoardTarget) -> Iterator[Evaluator]:
        del target
        with model_evaluator(self.config) as evaluator:
            yield evaluator


class VtaNetwork:
    """A network divided between VTA and CPU; see `tasks.backend.Network`. Its tasks are the VTA's."""

    tuner = "gridsearch"  # the cycle model evaluates hundreds of cuts in the time of one measurement
    unjudgeable_reason = (
        "a region of the network is one program, whose time tells nothing of its single convolutions"
    )

    def __init__(self, model: Model, target: BoardTarget, config: VtaConfig, options: CodeOptions) -> None:
        self._model, self.target, self.config, self._options = model, target, config, options
        self._winograd = options.winograd != "off"
        self._offload = Offload(model.module, options.start_pack, options.stop_pack)
        self.tasks = tasks_of(self._offload.regions)
        self.tuners: Mapping[str, MakeTuner[Knobs]] = {}
        self._held = ExitStack()

    @cached_property
    def beside(self) -> PackedNetwork:
        """The CPU's part, with placeholders for the programs, on which it does not depend."""
        none = [bytes([number]) for number in range(len(self._offload.regions))]
        return self._held.enter_context(self._rest(none))

    def space(self, task: Task) -> VtaSpace:
        """Return the space of a task: the cuts of its convolution."""
        return VtaSpace(self._own(task), self.config, self._options.device_name)

    def reference(self, task: Task) -> VtaReference:
        """Return a reference that computes a task with integers in numpy."""
        return VtaReference(self._own(task).shape)

    def probe(self) -> Probe:
        """Return a small convolution that tests a board before tuning."""
        return probe_for(self.config, self._options.device_name)

    def listing(self, task: Task) -> str:
        """Return the shape of a task's convolution."""
        return self._own(task).definition

    def code(self, task: Task, point: Knobs, form: str) -> str:
        """Raise UsageError: a VTA program has no form of a compiler.

        Raises
        ------
        UsageError
            Always.
        """
        del form
        raise UsageError(
            "--code is not available for a VTA: no compiler makes its programs",
            f"`toolchain vta compile --conv {self._own(task).shape} --knobs {point} --dump DIR` and "
            "`toolchain vta disasm DIR` show them",
        )

    def compile(self, points: Mapping[str, Knobs | Choice], folder: Path, progress: Progress) -> Objects:
        """Write the objects of the network, in which each region is one program."""
        for name, reason in self._offload.left.items():
            progress(f"left to the CPU: {name}: {reason}")
        progress("making the VTA's programs")
        programs = [assemble(self._cut(region, points), self.config) for region in self._offload.regions]
        with self._rest([blob_of(program) for program in programs], compiles=True) as rest:
            beside = {workload: point for workload, point in points.items() if isinstance(point, Choice)}
            made = rest.compile(beside, folder, progress)
        return Objects(
            made.files,
            {**made.rules, **{task.name: "vta" for task in self.tasks}},
            made.workloads,
            needs=RuntimeNeeds(devices=(VTA,), functions=made.needs.functions),  # those of programs too
            products=made.products,
        )

    def _rest(self, blobs: Sequence[bytes], *, compiles: bool = False) -> PackedNetwork:
        """Return the CPU's part of the network, which calls these programs."""
        module = self._offload.with_programs(blobs, self.config.block)
        cores = replace(self.target, device="", recorded_as="")
        rest = replace(self._model, module=module)
        return PackedNetwork(rest, cores, self._winograd, compiles=compiles)

    def _cut(self, region: Region, points: Mapping[str, Knobs | Choice]) -> Region:
        decided = [(task.shape, points.get(task.workload)) for task in self.tasks]
        knobs = {shape: point for shape, point in decided if isinstance(point, Knobs)}
        layers = [replace(each, knobs=self._fitting(each, knobs)) for each in region.layers]
        return replace(region, layers=layers)

    def _fitting(self, layer: RegionLayer, knobs: Mapping[ConvShape, Knobs]) -> Knobs | None:
        """Return how a layer is cut; None for the default cut if the residual needs the space."""
        shape = layer.layer.shape
        found = knobs.get(shape)
        if found is None or Tiling(shape, found, self.config, layer.residual is not None).problem():
            return None
        return found

    def _own(self, task: Task) -> VtaTask:
        return next(each for each in self.tasks if each.workload == task.workload)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ended: object) -> None:
        self._held.close()

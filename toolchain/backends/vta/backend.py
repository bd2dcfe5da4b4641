"""The backend `vta`: integer convolutions become VTA programs, the CPU computes the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Self

from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.backend import PackedNetwork
from toolchain.backends.vta.offload import Offload
from toolchain.backends.vta.space import SEED, Cut, VtaReference, VtaSpace, VtaTask, parameters_of, tasks_of
from toolchain.bundles.manifest import RuntimeNeeds
from toolchain.devices.device import VTA
from toolchain.errors import ToolchainError, UsageError
from toolchain.models.load import Model
from toolchain.profiles import Profile
from toolchain.targets.target import BoardTarget, target_for
from toolchain.tasks.backend import MakeTuner, Objects, OffBoards, Progress
from toolchain.tasks.candidate import Candidate, Entry, Known, Probe
from toolchain.tasks.evaluator import Evaluator, ModelledRunner
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.blob import blob_of
from toolchain.vta.compiling.estimate import default_knobs
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.config_file import find_config
from toolchain.vta.design import VtaConfig
from toolchain.vta.dumps.convolution import compile_convolution
from toolchain.vta.layers.layer import ConvShape
from toolchain.vta.layers.region import Knobs, Region, RegionLayer
from toolchain.vta.machine.requests import EncodedProgram, Refused, SimOptions
from toolchain.vta.machine.simulator import DEADLINE_S, Simulator

# Evaluates candidates with the cycle model of the simulator, without a board.

VTA_MODEL = "vta-model"
"""Name of the runner; records have it, with the model's version, in place of a board."""
TRIAL_S = 0.6
"""Approximate seconds per cut: mean CPU time of 60 cuts of ResNet-18. Half took at most 0.13 s, two 8 s."""

_ASKED = SimOptions(strict=True, computes=False, memory=False)
_CHECKED = SimOptions(strict=True)


class VtaModelRunner(ModelledRunner):
    """Compiles a cut to a program and counts its cycles with the model.

    The programs of finalists are also executed, in strict mode, and their results are compared with those of
    integers in numpy; the inputs come from the cut's own seed.
    """

    def __init__(self, config: VtaConfig, simulator: Simulator) -> None:
        self._config, self._simulator = config, simulator
        self._one = Lock()  # tasks are searched concurrently; the simulator handles one request at a time
        self._board = f"{VTA_MODEL} {config.cycles.version}"

    def result(self, candidate: Candidate, *, checked: bool) -> Result:
        """Return the modelled time of a candidate."""
        wish = _CHECKED if checked else _ASKED
        cut = candidate.code
        if not isinstance(cut, Cut):
            raise TypeError("this code is no cut of a convolution")
        try:
            dump = compile_convolution(cut.shape, self._config, cut.knobs, SEED).dump
            program = EncodedProgram(self._config, dump.program, dump.before, dump.phys_base)
            with self._one:
                done = self._simulator.run(program, wish, DEADLINE_S)
        except ToolchainError as error:
            return Result(failure="build", message=str(error), board=self._board, modelled=True)
        if isinstance(done, Refused):
            return Result(failure="runtime", message=done.message, board=self._board, modelled=True)
        if wish.memory and done.memory != dump.after:
            return Result(failure="wrong result", message="", board=self._board, modelled=True)
        return Result((done.milliseconds,), board=self._board, modelled=True)


@contextmanager
def model_evaluator(config: VtaConfig) -> Iterator[Evaluator]:
    """Yield an evaluator while its simulator runs."""
    with Simulator() as simulator:
        runner = VtaModelRunner(config, simulator)
        yield Evaluator(runner, runner)


# A small convolution that fits every design; it tests the way to a board before tuning.

_SIZE, _BLOCKS = 14, 2


def probe_for(config: VtaConfig, driver: str) -> Probe:
    """Return the probe, with the cut that builds use without a record."""
    channels = _BLOCKS * config.block
    shape = ConvShape(1, _SIZE, _SIZE, channels, channels, 3, 3, 1, 1, 1, 1)
    image = (1, channels, _SIZE, _SIZE)
    task = Known(
        "known-good-kernel",
        "small convolution",
        1,
        2 * shape.macs,
        (image, (channels, channels, 3, 3), image),
    )
    cut = Cut(shape, default_knobs(shape, config), config, driver)
    candidate = Candidate(Entry("probe", "", "probe"), cut, parameters_of(shape, config.block), 1)
    return Probe(task, candidate, VtaReference(shape))


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

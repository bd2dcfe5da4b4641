"""Shows how a build would compute one task: its decision, and the resources that its kernels need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic

from toolchain.building.decide import Decision, decide_task
from toolchain.devices.kernel import Kernel, KernelModel, Prediction
from toolchain.devices.table import kernel_kinds, with_kernels
from toolchain.errors import UsageError
from toolchain.lowering.modelled import MODELS, models_of
from toolchain.records.store import RecordStore
from toolchain.tasks.backend import Network
from toolchain.tasks.candidate import Candidate, DeviceCode
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import P

# Explains a task's code for a device: the demands of its kernels, and their modelled times.


@dataclass(frozen=True)
class Explained:
    """A kernel's demands on its device, and its predicted time.

    Attributes
    ----------
    modelled
        Prediction by a model of the device; None if no prediction was asked for.
    """

    kernel: Kernel
    modelled: Prediction | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as `toolchain tasks --explain --json` prints it."""
        kernel = self.kernel
        return {
            "kernel": kernel.name,
            "group": kernel.group,
            "groups": kernel.groups,
            "vector_width": kernel.vector_width,
            "private_bytes": kernel.private_bytes,
            "barriers": kernel.barriers,
            "arguments": kernel.arguments,
            "compiled": [asdict(resources) for resources in kernel.resources],
            "model": self.modelled and self.modelled.to_json(),
        }


def explain(candidate: Candidate, device: str, *, model: bool) -> list[Explained]:
    """Compile a candidate and return its kernels.

    Parameters
    ----------
    device
        The device that the code is for, such as `opencl:mali-t860`.
    model
        Whether to predict the time of each kernel, too, with a model of that device.

    Raises
    ------
    UsageError
        The code is for a CPU, or `model` is set and the device has no model.
    MissingError
        The model's image, or Docker, is missing.
    ToolchainError
        The compiler fails.
    """
    if not isinstance(candidate.code, DeviceCode):
        raise UsageError("--explain: this code is for a CPU, it has no kernels", with_kernels())
    models = models_of(device)
    if model and not models:
        known = " or ".join(row.device for kind in kernel_kinds() for row in MODELS.find(kind) or ())
        raise UsageError(
            f"--model: there is a model of {known} only, and this code is for {device}",
            f"use a board class with this device, or --device {known}",
        )
    kernels = candidate.code.launches()
    if not model:
        return [Explained(kernel) for kernel in kernels]
    with models[0].open() as asked:
        return [Explained(*pair) for pair in zip(kernels, asked.ask(kernels), strict=True)]


def modelled_ms(explained: Sequence[Explained]) -> float | None:
    """Return the sum of the modelled times in ms; None if a kernel has none."""
    times = [None if kernel.modelled is None else kernel.modelled.ms for kernel in explained]
    known = [time for time in times if time is not None]
    return sum(known) if len(known) == len(times) else None


@dataclass(frozen=True)
class Chosen(Generic[P]):
    """A task and the point that a build uses for it."""

    network: Network[P]
    decision: Decision[P]
    point: P

    def __str__(self) -> str:
        return f"{self.decision.task.name}: {self.rule}, {self.decision.source or 'by default'}"

    @property
    def rule(self) -> str:
        """Name of the algorithm or schedule of the point."""
        return self.network.space(self.decision.task).rule(self.point)

    def to_json(self) -> dict[str, object]:
        """Return the task and the origin of its record, as `toolchain tasks --json` prints them."""
        return {**self.decision.task.to_json(), "source": self.decision.source}

    def code(self, form: str) -> str:
        """Return the code as text; see `Network.code`."""
        return self.network.code(self.decision.task, self.point, form)

    def kernels(self, *, model: bool) -> ChosenKernels:
        """Compile the code and return its kernels with their demands, such as private memory, on the device.

        Parameters
        ----------
        model
            Whether to predict the time of each kernel, too, with a model of the device.

        Raises
        ------
        UsageError
            The code is for a CPU, or `model` is set and the device has no model.
        MissingError
            The model's image, or Docker, is missing.
        ToolchainError
            The compiler fails.
        """
        device = self.network.target.device
        candidate = self.network.space(self.decision.task).candidate(self.point)
        kernels = explain(candidate, device, model=model)
        return ChosenKernels(self, kernels, models_of(device)[0] if model else None)


@dataclass(frozen=True)
class ChosenKernels:
    """The kernels of a point, and the model that predicted their times; None: no prediction."""

    chosen: Chosen[Any]
    kernels: Sequence[Explained]
    model: KernelModel | None

    def to_json(self) -> dict[str, object]:
        """Return the kernels as `toolchain tasks --explain --json` prints them."""
        kernels = [kernel.to_json() for kernel in self.kernels]
        return {**self.chosen.to_json(), "rule": self.chosen.rule, "kernels": kernels}


def chosen(network: Network[P], task: Task, store: RecordStore | None, record_class: str) -> Chosen[P]:
    """Return the point that a build uses for a task: that of a record, or the default.

    Parameters
    ----------
    record_class
        The board class whose records are looked up.
    """
    decision = decide_task(network, task, store, network.target, record_class)
    point = decision.point if decision.tuned else None
    return Chosen(network, decision, network.space(task).default() if point is None else point)

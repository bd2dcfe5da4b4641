"""Tells how a build would compute one task: its decision, and its kernels' demands on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from toolchain.building.decide import Decision, decide_task
from toolchain.building.explain import Explained, explain
from toolchain.devices.model import KernelModel
from toolchain.lowering.modelled import models_of
from toolchain.records.store import RecordStore
from toolchain.tasks.backend import Network
from toolchain.tasks.space import P
from toolchain.tasks.task import Task


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
    """The kernels of a point, and the model that predicted their times; None if none was asked for."""

    chosen: Chosen[Any]
    kernels: Sequence[Explained]
    model: KernelModel | None

    def to_json(self) -> dict[str, object]:
        """Return the kernels as `toolchain tasks --explain --json` prints them."""
        kernels = [each.to_json() for each in self.kernels]
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

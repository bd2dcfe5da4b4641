"""Explains a task's code for a device: the demands of its kernels, and their modelled times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolchain.devices.kernel import Kernel
from toolchain.devices.model import Prediction
from toolchain.devices.table import kernel_kinds, with_kernels
from toolchain.errors import UsageError
from toolchain.lowering.modelled import MODELS, models_of
from toolchain.tasks.candidate import Candidate, DeviceCode


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
            "compiled": [asdict(each) for each in kernel.resources],
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
    found = models_of(device)
    if model and not found:
        known = " or ".join(each.device for kind in kernel_kinds() for each in MODELS.find(kind) or ())
        raise UsageError(
            f"--model: there is a model of {known} only, and this code is for {device}",
            f"use a board class with this device, or --device {known}",
        )
    kernels = candidate.code.launches()
    if not model:
        return [Explained(kernel) for kernel in kernels]
    with found[0].open() as asked:
        return [Explained(*each) for each in zip(kernels, asked.ask(kernels), strict=True)]


def modelled_ms(explained: Sequence[Explained]) -> float | None:
    """Return the sum of the modelled times in ms; None if a kernel has none."""
    times = [None if each.modelled is None else each.modelled.ms for each in explained]
    known = [time for time in times if time is not None]
    return sum(known) if len(known) == len(times) else None

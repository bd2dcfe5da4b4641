"""What a task's code asks of a device that runs kernels, and what a model says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolchain.devices.device import device_key
from toolchain.devices.kernel import Kernel
from toolchain.errors import UsageError
from toolchain.mali.gpu import T860_MP4
from toolchain.mali.model import MaliModel, Modelled
from toolchain.tasks.candidate import Candidate, DeviceCode


@dataclass(frozen=True)
class Explained:
    """A kernel, and what the model says of it where it was asked."""

    kernel: Kernel
    modelled: Modelled | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        kernel = self.kernel
        return {
            "kernel": kernel.name,
            "group": kernel.group,
            "groups": kernel.groups,
            "vector_width": kernel.vector_width,
            "private_bytes": kernel.private_bytes,
            "barriers": kernel.barriers,
            "arguments": kernel.arguments,
            "model": self.modelled and self.modelled.to_json(),
        }


def explain(candidate: Candidate, device: str, *, model: bool) -> list[Explained]:
    """Return the kernels of a candidate.

    Parameters
    ----------
    device
        What it is made for, such as `opencl:mali-t860`.
    model
        Ask the model of the Mali-T860, too.

    Raises
    ------
    UsageError
        It is code for a CPU; or the model is asked, and it is for another device.
    MissingError
        The model's image, or Docker, is not here.
    ToolchainError
        The compiler fails.
    """
    if not isinstance(candidate.code, DeviceCode):
        raise UsageError("--explain: this code is a CPU's, it has no kernels", "add --device opencl")
    known = device_key("opencl", T860_MP4.name)
    if model and device != known:
        raise UsageError(
            f"--model: it is a model of {known}, and this code is for {device}",
            f"a board class that has one, or --device {known}",
        )
    kernels = candidate.code.launches()
    if not model:
        return [Explained(kernel) for kernel in kernels]
    with MaliModel() as asked:
        return [Explained(each.kernel, each) for each in asked.ask(kernels)]


def modelled_ms(explained: Sequence[Explained]) -> float | None:
    """Return the sum of the model's times; None where it has none of one."""
    times = [each.modelled and each.modelled.estimate for each in explained]
    return sum(time.ms for time in times if time) if all(times) else None

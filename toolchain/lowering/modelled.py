"""Estimates candidates by a model of a device, without a board."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from toolchain.devices.device import CPU, device_key
from toolchain.devices.kernel import KernelModel, OpenModel
from toolchain.devices.table import OWN, KindTable
from toolchain.errors import ToolchainError, UsageError
from toolchain.profiles import Profile
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import OffBoards
from toolchain.tasks.candidate import Candidate, DeviceCode
from toolchain.tasks.evaluator import Evaluator, ModelledRunner
from toolchain.tasks.tuner import Result

MODELS: KindTable[tuple[KernelModel, ...]] = KindTable("model", {})
"""Models of devices that run kernels, by kind; the rows of `toolchain.devices` and of plugins name them."""


class KernelModelRunner(ModelledRunner):
    """Asks the model for each kernel of a candidate and adds their times.

    What a candidate computes is not compared with anything.
    """

    def __init__(self, model: OpenModel, name: str) -> None:
        self._model, self._name = model, name

    def result(self, candidate: Candidate, *, checked: bool) -> Result:  # noqa: ARG002
        """Return the sum of the times of a candidate's kernels."""
        try:
            if not isinstance(candidate.code, DeviceCode):
                raise UsageError("this code is for a CPU: it has no kernels")
            kernels = candidate.code.launches()
        except ToolchainError as error:
            return Result(failure="build", message=str(error), board=self._name, modelled=True)
        total = 0.0
        for modelled in self._model.ask(kernels):
            if modelled.ms is None:
                return Result(failure="build", message=modelled.problem, board=self._name, modelled=True)
            total += modelled.ms
        return Result((total,), board=self._name, modelled=True)


def models_of(device: str) -> tuple[KernelModel, ...]:
    """Return the models of a device, such as `opencl:mali-t860`."""
    kind = device.partition(":")[0]
    return tuple(model for model in MODELS.find(kind) or () if model.device == device)


def kernel_models() -> Iterator[KernelModel]:
    """Yield the models of all kinds of devices of this package."""
    for kind in OWN:
        yield from MODELS.find(kind) or ()


@contextmanager
def _evaluator(model: KernelModel, target: BoardTarget) -> Iterator[Evaluator]:
    if target.dtype in model.unjudged:
        raise UsageError(
            f"--runner {model.name}: the model cannot judge {target.dtype}: {model.unjudged[target.dtype]}",
            "tune with --dtype float32, or on a board",
        )
    with model.open() as asked:
        runner = KernelModelRunner(asked, model.name)
        yield Evaluator(runner, runner)


def device_runners(profile: Profile, kind: str, name: str = "") -> Mapping[str, OffBoards]:
    """Return the runners that need no board, for code of a device of a board class.

    Parameters
    ----------
    name
        Of the device, where it is another than the class's.
    """
    found = "" if kind == CPU else name or profile.device(kind).name
    if not found:
        return {}
    return {
        model.name: OffBoards(partial(_evaluator, model), model.trial_s)
        for model in models_of(device_key(kind, found))
    }

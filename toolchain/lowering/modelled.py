"""Candidates by a model of a device: no board, no time that a clock has shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from toolchain.devices.by_kind import KindTable
from toolchain.devices.device import CPU, device_key
from toolchain.devices.model import Asked, KernelModel
from toolchain.errors import ToolchainError, UsageError
from toolchain.mali.row import MALI_T860
from toolchain.profiles import Profile
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import OffBoards
from toolchain.tasks.candidate import Candidate, DeviceCode
from toolchain.tasks.evaluator import BuiltCandidate, Evaluator
from toolchain.tasks.reference import Case
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result

MODELS: KindTable[tuple[KernelModel, ...]] = KindTable("model", {"opencl": (MALI_T860,)})
"""Models of devices that run kernels, by kind."""


class ModelRunner:
    """Builds no library and runs nothing: the model is asked for each kernel, and their times are added.

    What a candidate computes is not compared with anything. What won has to be verified where it runs.
    """

    names: tuple[str, ...] = ()
    lanes = 1
    in_use_s: Mapping[str, float] = {}

    def __init__(self, model: Asked, name: str) -> None:
        self._model, self._name = model, name

    def build(self, candidates: Sequence[Candidate]) -> list[BuiltCandidate]:
        """Return the candidates as they are."""
        return [BuiltCandidate(candidate) for candidate in candidates]

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        """Take no note: nothing is computed."""

    def run(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:  # noqa: ARG002
        """Return the model's times of candidates."""
        return [self._result(each.candidate) for each in built]

    def check(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        """Do as `run` does."""
        return self.run(task, built)

    def probe(self, task: Task, built: BuiltCandidate) -> list[Result]:  # noqa: ARG002
        """Return that all is well: there is no way to a board that could be tried."""
        return [Result(modelled=True)]

    def compare(self, task: Task, built: Sequence[BuiltCandidate], rounds: int) -> list[list[Result]]:
        """Return the same in each round: the model does not vary."""
        return [self.run(task, built)] * rounds

    def _result(self, candidate: Candidate) -> Result:
        try:
            if not isinstance(candidate.code, DeviceCode):
                raise UsageError("this code is a CPU's: it has no kernels")
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


@contextmanager
def _evaluator(model: KernelModel, target: BoardTarget) -> Iterator[Evaluator]:
    if target.dtype in model.unjudged:
        raise UsageError(
            f"--runner {model.name}: the model cannot judge {target.dtype}: {model.unjudged[target.dtype]}",
            "tune with --dtype float32, or on a board",
        )
    with model.open() as asked:
        runner = ModelRunner(asked, model.name)
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

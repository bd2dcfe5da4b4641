"""Candidates for the Mali-T860 by a model of it: no board, no time that a clock has shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from toolchain.devices.device import CPU, device_key
from toolchain.errors import ToolchainError, UsageError
from toolchain.mali.gpu import T860_MP4
from toolchain.mali.model import MaliModel
from toolchain.profiles import Profile
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import OffBoards
from toolchain.tasks.bench import Bench, Built
from toolchain.tasks.candidate import Candidate, DeviceCode
from toolchain.tasks.reference import Case
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result

MALI_MODEL = "mali-model"
"""Name of the runner, and of what stands for a board in its records."""

_TRIAL_S = 0.7  # 51 candidates of SqueezeNet took 38 s, beside other work


class ModelRunner:
    """Builds no library and runs nothing: the model is asked for each kernel, and their times are added.

    What a candidate computes is not compared with anything. What won has to be verified where it runs.
    """

    names: tuple[str, ...] = ()
    lanes = 1
    in_use_s: Mapping[str, float] = {}

    def __init__(self, model: MaliModel) -> None:
        self._model = model

    def build(self, candidates: Sequence[Candidate]) -> list[Built]:
        """Return the candidates as they are."""
        return [Built(candidate) for candidate in candidates]

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        """Take no note: nothing is computed."""

    def run(self, task: Task, built: Sequence[Built]) -> list[Result]:  # noqa: ARG002
        """Return the model's times of candidates."""
        return [self._result(each.candidate) for each in built]

    def check(self, task: Task, built: Sequence[Built]) -> list[Result]:
        """Do as `run` does."""
        return self.run(task, built)

    def probe(self, task: Task, built: Built) -> list[Result]:  # noqa: ARG002
        """Return that all is well: there is no way to a board that could be tried."""
        return [Result(modelled=True)]

    def compare(self, task: Task, built: Sequence[Built], rounds: int) -> list[list[Result]]:
        """Return the same in each round: the model does not vary."""
        return [self.run(task, built)] * rounds

    def _result(self, candidate: Candidate) -> Result:
        try:
            if not isinstance(candidate.code, DeviceCode):
                raise UsageError("this code is a CPU's: it has no kernels")
            kernels = candidate.code.launches()
        except ToolchainError as error:
            return Result(failure="build", message=str(error), board=MALI_MODEL, modelled=True)
        total = 0.0
        for modelled in self._model.ask(kernels):
            if modelled.estimate is None:
                return Result(failure="build", message=modelled.problem, board=MALI_MODEL, modelled=True)
            total += modelled.estimate.ms
        return Result((total,), board=MALI_MODEL, modelled=True)


@contextmanager
def _bench(target: BoardTarget) -> Iterator[Bench]:
    if target.dtype != "float32":
        raise UsageError(
            f"--runner {MALI_MODEL}: the model cannot judge {target.dtype}: "
            "Mesa uses half of the GPU's lanes for it",
            "tune with --dtype float32, or on a board",
        )
    with MaliModel() as model:
        runner = ModelRunner(model)
        yield Bench(runner, runner)


def device_runners(profile: Profile, kind: str, name: str = "") -> Mapping[str, OffBoards]:
    """Return the runners that need no board, for code of a device of a board class.

    Parameters
    ----------
    name
        Of the device, where it is another than the class's.
    """
    if kind == CPU:
        return {}
    found = name or profile.device(kind).name
    known = found and device_key(kind, found) == device_key("opencl", T860_MP4.name)
    return {MALI_MODEL: OffBoards(_bench, _TRIAL_S)} if known else {}

"""Candidates by the cycle model of the machine in software: no board, no time that a clock has shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock

from toolchain.backends.vta.cut import SEED, Cut
from toolchain.errors import ToolchainError
from toolchain.tasks.candidate import Candidate
from toolchain.tasks.evaluator import BuiltCandidate, Evaluator
from toolchain.tasks.reference import Case
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.vta.design.config import VtaConfig
from toolchain.vta.dumps.convolution import compile_convolution
from toolchain.vta.machine.requests import Program, Refused, Wish
from toolchain.vta.machine.simulator import DEADLINE_S, Simulator

VTA_MODEL = "vta-model"
"""Name of the runner; what stands for a board in its records begins with it."""
TRIAL_S = 0.6
"""Seconds for a cut, about: the mean CPU time of 60 of ResNet-18's. Half took 0.13 s or less, two 8 s."""

_ASKED = Wish(strict=True, computes=False, memory=False)
_CHECKED = Wish(strict=True)


class VtaModelRunner:
    """Builds no library: a cut becomes a program, whose cycles the model counts.

    Finalists are computed, too, strictly, and compared with numpy's integers.
    """

    names: tuple[str, ...] = ()
    lanes = 1
    in_use_s: Mapping[str, float] = {}

    def __init__(self, config: VtaConfig, simulator: Simulator) -> None:
        self._config, self._simulator = config, simulator
        self._one = Lock()  # tasks are searched side by side; the simulator answers one after the other
        self._board = f"{VTA_MODEL} {config.cycles.version}"

    def build(self, candidates: Sequence[Candidate]) -> list[BuiltCandidate]:
        """Return the candidates as they are."""
        return [BuiltCandidate(candidate) for candidate in candidates]

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        """Take no note: what is right follows from the cut's own seed."""

    def run(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:  # noqa: ARG002
        """Return the model's times."""
        return [self._result(each.candidate, _ASKED) for each in built]

    def check(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:  # noqa: ARG002
        """Return the model's times of candidates that compute what they should."""
        return [self._result(each.candidate, _CHECKED) for each in built]

    def probe(self, task: Task, built: BuiltCandidate) -> list[Result]:  # noqa: ARG002
        """Return that all is well: there is no way to a board that could be tried."""
        return [Result(modelled=True)]

    def compare(self, task: Task, built: Sequence[BuiltCandidate], rounds: int) -> list[list[Result]]:
        """Return the same in each round: the model does not vary."""
        return [self.run(task, built)] * rounds

    def _result(self, candidate: Candidate, wish: Wish) -> Result:
        cut = candidate.code
        if not isinstance(cut, Cut):
            raise TypeError("this code is no cut of a convolution")
        try:
            dump = compile_convolution(cut.shape, self._config, cut.knobs, SEED).dump
            program = Program(self._config, dump.program, dump.before, dump.phys_base)
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
    """Yield the runner, while the machine in software runs."""
    with Simulator() as simulator:
        runner = VtaModelRunner(config, simulator)
        yield Evaluator(runner, runner)

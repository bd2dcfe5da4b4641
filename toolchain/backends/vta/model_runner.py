"""Candidates by the cycle model of the machine in software: no board, no time that a clock has shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from toolchain.backends.vta.cut import SEED, Cut
from toolchain.errors import ToolchainError
from toolchain.tasks.candidate import Candidate
from toolchain.tasks.evaluator import Evaluator
from toolchain.tasks.modelled import ModelledRunner
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


class VtaModelRunner(ModelledRunner):
    """Compiles a cut to a program, whose cycles the model counts.

    Finalists are computed, too, strictly, and compared with numpy's integers; what is right follows from the
    cut's own seed.
    """

    def __init__(self, config: VtaConfig, simulator: Simulator) -> None:
        self._config, self._simulator = config, simulator
        self._one = Lock()  # tasks are searched side by side; the simulator answers one after the other
        self._board = f"{VTA_MODEL} {config.cycles.version}"

    def result(self, candidate: Candidate, *, checked: bool) -> Result:
        """Return the time of a candidate's cycles."""
        wish = _CHECKED if checked else _ASKED
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

"""Evaluates candidates with the cycle model of the simulator, without a board."""

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
from toolchain.vta.machine.requests import EncodedProgram, Refused, SimOptions
from toolchain.vta.machine.simulator import DEADLINE_S, Simulator

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

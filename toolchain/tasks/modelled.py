"""A runner that asks a model of the device: it builds nothing and needs no board."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from toolchain.tasks.candidate import Candidate
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tasks.reference import Case
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result


class ModelledRunner(ABC):
    """Builder and runner of candidates whose times a model computes; subclasses ask the model.

    The winner has to be verified on a board: the model may be wrong about it.
    """

    names: tuple[str, ...] = ()
    lanes = 1
    in_use_s: Mapping[str, float] = {}
    power_cycles: Mapping[str, int] = {}

    @abstractmethod
    def result(self, candidate: Candidate, *, checked: bool) -> Result:
        """Return the model's time of a candidate; a candidate that cannot be modelled is a failure.

        Parameters
        ----------
        checked
            Compare what the candidate computes with what it should, if the model can compute.
        """

    def build(self, candidates: Sequence[Candidate]) -> list[BuiltCandidate]:
        """Return the candidates as they are: the model needs no library."""
        return [BuiltCandidate(candidate) for candidate in candidates]

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        """Ignore the cases: no board computes them."""
        del task, cases

    def run(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:  # noqa: ARG002
        """Return the model's times."""
        return [self.result(each.candidate, checked=False) for each in built]

    def check(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:  # noqa: ARG002
        """Return the model's times; a candidate that is known to compute something else is a failure."""
        return [self.result(each.candidate, checked=True) for each in built]

    def probe(self, task: Task, built: BuiltCandidate) -> list[Result]:  # noqa: ARG002
        """Return success: there is no connection to a board that could be tried."""
        return [Result(modelled=True)]

    def compare(self, task: Task, built: Sequence[BuiltCandidate], rounds: int) -> list[list[Result]]:
        """Return the same times in each round: the model does not vary."""
        return [self.run(task, built)] * rounds

    def revive(self, board: str) -> bool:  # noqa: ARG002
        """Return False: no board is asked."""
        return False

"""The interfaces of what builds candidates and what runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from toolchain.devices.kind import Failure
from toolchain.tasks.candidate import Candidate, Case
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result


@dataclass(frozen=True)
class BuiltCandidate:
    """A candidate with the library it was built into, or with the reason why building failed.

    Attributes
    ----------
    library
        Path of the library, which may also contain the functions of other candidates. None if building
        failed, or if the runner needs no library.
    function
        Name of the candidate's function in the library.
    """

    candidate: Candidate
    library: Path | None = None
    failure: Failure | None = None
    message: str = ""
    function: str = "main"


class Builder(Protocol):
    """Builds candidates into libraries."""

    def build(self, candidates: Sequence[Candidate]) -> list[BuiltCandidate]:
        """Build candidates and return them in the same order; a failure does not affect the others."""


class Runner(Protocol):
    """Runs built candidates and times them.

    Attributes
    ----------
    names
        Names of the boards that measure; empty if no board does.
    """

    names: tuple[str, ...]

    @property
    def lanes(self) -> int:
        """Number of candidates that it can measure at the same time."""

    @property
    def in_use_s(self) -> Mapping[str, float]:
        """Seconds that each board has measured so far, by its name."""

    @property
    def power_cycles(self) -> Mapping[str, int]:
        """Number of times that boards were power-cycled because they were silent, by their names."""

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        """Store the cases of a task, before any of its candidates runs.

        A candidate whose outputs differ from them fails with "wrong result".
        """

    def run(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        """Measure candidates of one task; return their results in the same order.

        Only the first case is computed. Candidates that failed to build keep their failure.
        """

    def check(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        """Measure like `run`, but compute every case of the task first."""

    def probe(self, task: Task, built: BuiltCandidate) -> list[Result]:
        """Run a known-good candidate on every board; return a result for each.

        Its library and cases must exist as long as the runner: the runner may run it again to find boards
        that are slower than others, or have become slower.
        """

    def compare(self, task: Task, built: Sequence[BuiltCandidate], rounds: int) -> list[list[Result]]:
        """Time the candidates alternately on one board for `rounds` rounds; return the results of each round.

        Raises
        ------
        ToolchainError
            No board stayed reachable long enough.
        """

    def revive(self, board: str) -> bool:
        """Wait for a board that went silent, and power-cycle it if that is allowed; return if it answers."""


@dataclass(frozen=True)
class Evaluator:
    """The builder and the runner of one tuning run.

    Attributes
    ----------
    device
        Key of the device that measures, with its driver's name for it, as in the keys of records. Empty if no
        driver was asked: then the device is the one the code is made for.
    """

    builder: Builder
    runner: Runner
    device: str = ""


# A runner that asks a model of the device: it builds nothing and needs no board.


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

"""A station's results in the place of a board: looked up by the candidate that asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolchain.tasks.candidate import Candidate, Case
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result

_MISSING = Result(failure="upload", message="the station did not measure it")


class Station:
    """Builder and runner of candidates that were measured already; see `tasks.evaluator`.

    Parameters
    ----------
    name
        In the place of a board's name.
    found
        Results by the workload of a task and the digest of a point.
    """

    lanes = 1

    def __init__(self, name: str, found: Mapping[tuple[str, str], Result]) -> None:
        self.names: tuple[str, ...] = (name,)
        self._found = found
        self.in_use_s: Mapping[str, float] = {}
        self.power_cycles: Mapping[str, int] = {}

    def build(self, candidates: Sequence[Candidate]) -> list[BuiltCandidate]:
        """Return the candidates as they are: they were built when they were exported."""
        return [BuiltCandidate(candidate) for candidate in candidates]

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        """Ignore the cases: the station compared with those of the folder."""
        del task, cases

    def run(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        """Return the station's results; what it did not measure failed as if the board had gone away."""
        return [self._found.get((task.workload, each.candidate.entry.digest), _MISSING) for each in built]

    def check(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        """Return the station's results."""
        return self.run(task, built)

    def probe(self, task: Task, built: BuiltCandidate) -> list[Result]:  # noqa: ARG002
        """Return success: the station tried its own way before it measured."""
        return [Result()]

    def compare(self, task: Task, built: Sequence[BuiltCandidate], rounds: int) -> list[list[Result]]:
        """Return the same times in each round: nothing is measured again."""
        return [self.run(task, built)] * rounds

    def revive(self, board: str) -> bool:  # noqa: ARG002
        """Return False: no board is asked."""
        return False

"""From candidates to results: who builds them, and who runs what was built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from toolchain.devices.failure import Failure
from toolchain.tasks.candidate import Candidate
from toolchain.tasks.reference import Case
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result


@dataclass(frozen=True)
class Built:
    """A candidate and the library that was made of it, or why there is none.

    Attributes
    ----------
    library
        It may hold the functions of other candidates, too. None, too, where the runner takes the candidate
        as it is.
    function
        Which of the library's functions is the candidate's.
    """

    candidate: Candidate
    library: Path | None = None
    failure: Failure | None = None
    message: str = ""
    function: str = "main"


class Builder(Protocol):
    """Makes candidates ready to run."""

    def build(self, candidates: Sequence[Candidate]) -> list[Built]:
        """Build candidates, in their order; one that fails costs the others nothing."""


class Runner(Protocol):
    """Runs what was built, and says how long it took.

    Attributes
    ----------
    names
        Of the boards that measure; empty where none does.
    """

    names: tuple[str, ...]

    @property
    def lanes(self) -> int:
        """How many candidates it measures at a time, now."""

    @property
    def in_use_s(self) -> Mapping[str, float]:
        """For how many seconds each of them has measured until now, by its name."""

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        """Take note of a task's cases, before anything of it is run.

        A candidate that computes something else is a failure, "wrong result".
        """

    def run(self, task: Task, built: Sequence[Built]) -> list[Result]:
        """Measure candidates of one task, in their order; what was not built stays failed.

        The first case alone is computed.
        """

    def check(self, task: Task, built: Sequence[Built]) -> list[Result]:
        """Do as `run` does, with every case of the task."""

    def probe(self, task: Task, built: Built) -> list[Result]:
        """Run one candidate that is known to be good in every place that there is.

        Its library, its case and what comes of it stay as they are for as long as there is the runner: it may
        be run again to see whether a place is slower than others, or than it was.
        """

    def compare(self, task: Task, built: Sequence[Built], rounds: int) -> list[list[Result]]:
        """Measure candidates in turn, all in one place, `rounds` times; return what each round gave.

        Raises
        ------
        ToolchainError
            No place stays for long enough.
        """


@dataclass(frozen=True)
class Bench:
    """Who builds and who runs the candidates of one tuning run.

    Attributes
    ----------
    device
        What its driver calls the device that measures, as records' keys have it; empty where no driver was
        asked: then it is what the code is made for.
    """

    builder: Builder
    runner: Runner
    device: str = ""

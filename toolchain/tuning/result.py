"""What came of a tuning run."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

from toolchain.records.record import Record
from toolchain.tasks.task import Task
from toolchain.tuning.judging.judge import Judgement


@dataclass(frozen=True)
class TunedTask:
    """What came of one task.

    Attributes
    ----------
    default
        Record of what a build takes without one.
    default_ms
        What it took when the finalists were measured.
    choice
        Record of what a build takes from now on.
    rule
        What the choice's code is made by.
    modelled
        The times are a model's: no clock has shown them.
    """

    task: Task
    trials: int
    failed: int
    default: Record
    default_ms: float
    choice: Record
    rule: str
    modelled: bool = False

    @property
    def best_ms(self) -> float:
        """What the choice took when the finalists were measured."""
        return fmean(self.choice.run_ms)

    @property
    def won(self) -> str:
        """`default`, or what the code of another point is made by."""
        return "default" if self.choice.digest == self.default.digest else self.rule


@dataclass(frozen=True)
class TuneResult:
    """What came of a run; the milliseconds are sums over its tasks, each times its weight.

    `boards` says how many trials each board measured; `network` what the network said of the winners, None
    where it was not asked.

    Attributes
    ----------
    run
        What its records are marked with: `Provenance.run`.
    search_s
        How long the search took: from the defaults to the last trial.
    in_use_s
        For how much of that each board had a session.
    """

    tasks: list[TunedTask]
    seconds: float
    boards: dict[str, int] = field(default_factory=dict)
    network: Judgement | None = None
    run: str = ""
    search_s: float = 0.0
    in_use_s: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the result as `toolchain tune --json` prints it."""
        return {
            "run": self.run,
            "trials": sum(tuned.trials for tuned in self.tasks),
            "failed": sum(tuned.failed for tuned in self.tasks),
            "seconds": round(self.seconds, 1),
            "estimated_ms_before": sum(tuned.task.weight * tuned.default_ms for tuned in self.tasks),
            "estimated_ms_after": sum(tuned.task.weight * tuned.best_ms for tuned in self.tasks),
            "boards": self.boards,
            "search_seconds": round(self.search_s, 1),
            "in_use_seconds": {name: round(seconds, 1) for name, seconds in self.in_use_s.items()},
            "network": self.network.to_json() if self.network else None,
            "tasks": [
                {
                    "id": tuned.task.id,
                    "name": tuned.task.name,
                    "trials": tuned.trials,
                    "best_ms": tuned.best_ms,
                    "default_ms": tuned.default_ms,
                    "choice": tuned.won,
                    "modelled": tuned.modelled,
                }
                for tuned in self.tasks
            ],
        }

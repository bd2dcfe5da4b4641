"""What came of a tuning run."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

from toolchain.backends.packed.algorithms.table import choice_from
from toolchain.backends.packed.kinds import CPU
from toolchain.backends.tensorir.kinds import DEFAULT
from toolchain.lowering.tasks import Task
from toolchain.records.record import Record


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
    """

    task: Task
    trials: int
    failed: int
    default: Record
    default_ms: float
    choice: Record

    @property
    def best_ms(self) -> float:
        """What the choice took when the finalists were measured."""
        return fmean(self.choice.run_ms)

    @property
    def won(self) -> str:
        """`default`, the algorithm of generated code, or the kind of another record."""
        if self.choice.digest == self.default.digest:
            return DEFAULT
        return choice_from(self.choice.payload).algorithm if self.choice.kind == CPU else self.choice.kind


@dataclass(frozen=True)
class TuneResult:
    """What came of a run; the milliseconds are sums over its tasks, each times its weight.

    `boards` says how many trials each board measured.
    """

    tasks: list[TunedTask]
    seconds: float
    boards: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the result as `toolchain tune --json` prints it."""
        return {
            "trials": sum(tuned.trials for tuned in self.tasks),
            "failed": sum(tuned.failed for tuned in self.tasks),
            "seconds": round(self.seconds, 1),
            "estimated_ms_before": sum(tuned.task.weight * tuned.default_ms for tuned in self.tasks),
            "estimated_ms_after": sum(tuned.task.weight * tuned.best_ms for tuned in self.tasks),
            "boards": self.boards,
            "tasks": [
                {
                    "id": tuned.task.id,
                    "name": tuned.task.name,
                    "trials": tuned.trials,
                    "best_ms": tuned.best_ms,
                    "default_ms": tuned.default_ms,
                    "choice": tuned.won,
                }
                for tuned in self.tasks
            ],
        }

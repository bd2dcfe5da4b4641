"""What came of a tuning run."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

from toolchain.building.tasks import Task
from toolchain.records.record import Record


@dataclass(frozen=True)
class TunedTask:
    """What came of one task."""

    task: Task
    trials: int
    failed: int
    default_ms: float
    choice: Record

    @property
    def best_ms(self) -> float:
        """Of the schedule that a build takes from now on."""
        return fmean(self.choice.run_ms)


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
                    "choice": tuned.choice.kind,
                }
                for tuned in self.tasks
            ],
        }

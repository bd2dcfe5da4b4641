"""The result of a tuning run."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

from toolchain.quantities import shown_ms
from toolchain.records.record import Record
from toolchain.tasks.task import Task
from toolchain.tuning.events import RunVerdict
from toolchain.tuning.judging.judge import NetworkJudgement


@dataclass(frozen=True)
class TunedTask:
    """The result of tuning one task.

    Attributes
    ----------
    default
        Record of the default, which a build uses without records.
    default_ms
        Time of the default in the final comparison.
    choice
        Record that builds use from now on.
    rule
        Name of the algorithm or schedule of the choice.
    modelled
        Whether the times come from a model, not from a clock.
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
        """Time of the choice in the final comparison, in ms."""
        return fmean(self.choice.run_ms)

    @property
    def won(self) -> str:
        """`default` if the default won, else the name of the winner's algorithm or schedule."""
        return "default" if self.choice.digest == self.default.digest else self.rule


@dataclass(frozen=True)
class TuneResult:
    """The result of a tuning run.

    Attributes
    ----------
    seconds
        Duration of the run.
    boards
        Number of trials that each board measured.
    network
        The judgement in the network; None if there was none.
    run
        Id of the run, which its records have as `Provenance.run`.
    search_s
        Duration of the search in seconds: from the first turn to the last trial, without the defaults.
    in_use_s
        Seconds of the search for which each board had a session.
    power_cycles
        Number of times that boards were power-cycled because they were silent, by their names.
    beside_others
        Number of trials during which other processes computed on the device.
    """

    tasks: list[TunedTask]
    seconds: float
    boards: dict[str, int] = field(default_factory=dict)
    network: NetworkJudgement | None = None
    run: str = ""
    search_s: float = 0.0
    in_use_s: dict[str, float] = field(default_factory=dict)
    power_cycles: dict[str, int] = field(default_factory=dict)
    beside_others: int = 0

    @property
    def trials(self) -> int:
        """Number of trials of all tasks."""
        return sum(tuned.trials for tuned in self.tasks)

    @property
    def untuned_ms(self) -> float:
        """Time of the tasks' defaults in one inference, by the final comparison, in ms."""
        return sum(tuned.task.weight * tuned.default_ms for tuned in self.tasks)

    @property
    def tuned_ms(self) -> float:
        """Time of the tasks' choices in one inference, by the final comparison, in ms."""
        return sum(tuned.task.weight * tuned.best_ms for tuned in self.tasks)

    @property
    def verdict(self) -> RunVerdict:
        """The run's verdict: by the network if it was timed, else by the tasks."""
        if self.network is not None:
            before_ms, after_ms = self.network.before_ms, self.network.after_ms
            return RunVerdict(f"network: {self.network}", True, before_ms, after_ms)
        text = f"these tasks: {shown_ms(self.untuned_ms)} -> {shown_ms(self.tuned_ms)} per inference"
        return RunVerdict(text, False, self.untuned_ms, self.tuned_ms)

    def to_json(self) -> dict[str, object]:
        """Return the result as `toolchain tune --json` prints it."""
        return {
            "run": self.run,
            "trials": self.trials,
            "failed": sum(tuned.failed for tuned in self.tasks),
            "seconds": round(self.seconds, 1),
            "estimated_ms_before": self.untuned_ms,
            "estimated_ms_after": self.tuned_ms,
            "verdict": self.verdict.text,
            "boards": self.boards,
            "search_seconds": round(self.search_s, 1),
            "caches_flushed": False,
            "in_use_seconds": {name: round(seconds, 1) for name, seconds in self.in_use_s.items()},
            "power_cycles": self.power_cycles,
            "beside_others": self.beside_others,
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

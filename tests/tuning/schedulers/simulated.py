"""Tasks whose best time after so many trials is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolchain.tuning.schedulers.scheduler import Prospect, Scheduler, Turn


@dataclass(frozen=True)
class Simulated:
    """A task: its weight, its best time after t trials, and how many candidates it has."""

    weight: int
    best_ms: Callable[[int], float]
    size: int | None = None

    @property
    def prospect(self) -> Prospect:
        return Prospect(self.weight, self.best_ms(0), self.size)


def falling(start_ms: float, floor_ms: float, half: float) -> Callable[[int], float]:
    """Return a curve that has come half of its way after `half` trials."""
    return lambda trials: floor_ms + (start_ms - floor_ms) * half / (half + trials)


def prospects(tasks: Sequence[Simulated]) -> list[Prospect]:
    return [task.prospect for task in tasks]


def spend(
    scheduler: Scheduler, tasks: Sequence[Simulated], batch: int, in_flight: int = 1
) -> tuple[list[int], list[Turn]]:
    """Tune until nothing is given out any more; return the trials of each task, and all turns."""
    used = [0] * len(tasks)
    turns: list[Turn] = []
    out: deque[Turn] = deque()
    while True:
        while len(out) < in_flight and (turn := scheduler.next(batch)) is not None:
            assert 0 < turn.trials <= batch
            turns.append(turn)
            out.append(turn)
        if not out:
            return used, turns
        turn = out.popleft()
        task = tasks[turn.task]
        left = turn.trials if task.size is None else min(turn.trials, task.size - used[turn.task])
        used[turn.task] += left
        scheduler.report(turn, left, task.best_ms(used[turn.task]))


def network_ms(tasks: Sequence[Simulated], used: Sequence[int]) -> float:
    return sum(task.weight * task.best_ms(trials) for task, trials in zip(tasks, used, strict=True))

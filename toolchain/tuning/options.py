"""The user's options for a tuning run."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.errors import UsageError
from toolchain.tuning.schedulers.scheduler import SCHEDULERS

BOARDS = "boards"
"""Name of the runner that measures on boards, over RPC."""
OFFLINE = "offline"
"""First word in the place of a board's name, in records of candidates that were exported."""


@dataclass(frozen=True)
class TuneOptions:
    """Options of a tuning run.

    Attributes
    ----------
    trials
        Total number of candidates to measure, shared among the tasks.
    time_s
        Seconds for the run. No trial begins in the last quarter, which is for comparing the fastest.
        Work that has begun is finished; work that does not fit is skipped. None: no limit.
    tasks
        Ids of the tasks to tune; empty: all.
    heaviest
        Tune only this many tasks, those with most weight x FLOPs; None: all of `tasks`.
    number, repeat, min_repeat_ms
        How a candidate is timed: each of `repeat` results is the mean of `number` calls, or of more if they
        would take less than `min_repeat_ms`.
    timeout_s
        Deadline for one candidate on the board; None: computed from its FLOPs and the board.
    threads, cluster
        Number of threads, and CPU of a cluster of the board; None: all cores of the first cluster.
    fresh
        Whether to ignore the results of earlier runs.
    search_seed
        Random seed of the tuners.
    early_stopping
        A task gets no more trials after this many in a row without becoming at least 1 % faster; None: no
        early stopping.
    tuner
        Name of the tuner; None: the backend's default.
    scheduler
        Name of the scheduler, which chooses the task that gets the next trials.
    builders
        Number of processes of this host that compile candidates, or `dask://HOST:PORT` of a fleet; None: as
        many processes as the setting `jobs`.
    runner
        Name of the runner; None: the backend's default, for CPUs `boards`.
    """

    trials: int = 64
    time_s: float | None = None
    tasks: tuple[str, ...] = ()
    heaviest: int | None = None
    number: int = 1
    repeat: int = 3
    min_repeat_ms: int = 20
    timeout_s: float | None = None
    threads: int | None = None
    cluster: str | None = None
    fresh: bool = False
    search_seed: int = 1
    early_stopping: int | None = None
    tuner: str | None = None
    scheduler: str = next(iter(SCHEDULERS))
    runner: str | None = None
    builders: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("trials", 1), ("number", 1), ("repeat", 1), ("min_repeat_ms", 0)):
            value = getattr(self, name)
            if value < least:
                raise UsageError(f"--{name.replace('_', '-')} {value}: must be {least} or more")
        if self.early_stopping is not None and self.early_stopping < 1:
            raise UsageError(f"--early-stopping {self.early_stopping}: must be 1 or more")
        if self.scheduler not in SCHEDULERS:
            raise UsageError(
                f"--scheduler {self.scheduler}: no scheduler of this name",
                f"use one of: {', '.join(SCHEDULERS)}",
            )
        if self.search_seed < 1:
            raise UsageError(f"--search-seed {self.search_seed}: must be 1 or more")
        if self.time_s is not None and self.time_s <= 0:
            raise UsageError(f"--time {self.time_s:g}: must be above 0")
        if self.builders is not None:
            from toolchain.tuning.builders.choice import check_builders  # slow to import

            check_builders(self.builders)

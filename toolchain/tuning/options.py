"""What a user can say about a tuning run."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.errors import UsageError
from toolchain.tuning.schedulers.table import SCHEDULERS

BOARDS = "boards"
"""Name of the runner that measures on boards, over RPC."""


@dataclass(frozen=True)
class TuneOptions:
    """How to tune.

    Attributes
    ----------
    trials
        Candidates to measure in all; shared among the tasks.
    time_s
        Seconds for the run; the last quarter is for the whole network, so that no trial begins in it. What
        has begun comes to its end, and what does not fit is left out. None: no limit.
    tasks
        Ids of the tasks to tune; empty: all.
    heaviest
        Tune only this many tasks, those with most weight x FLOPs; None: all of `tasks`.
    number, repeat, min_repeat_ms
        Of the evaluator: each of `repeat` results is the mean of `number` calls or more, so that
        one takes at least `min_repeat_ms`.
    timeout_s
        For one candidate on the board; None: from its FLOPs and the board.
    threads, cluster
        None: the first cluster, all its cores.
    fresh
        Begin without what earlier runs learned.
    search_seed
        Of the search for candidates.
    early_stopping
        A task gets no more trials once so many in a row made it faster by less than 1 %; None: it does.
    tuner
        Name of who searches; None: the backend's own choice.
    scheduler
        Name of who says which task gets the next trials.
    builders
        Who compiles candidates: a number of processes of this host, or `dask://HOST:PORT`; None: as many as
        the setting `jobs`.
    runner
        Name of who measures; None: the backend's own choice, for CPUs `boards`.
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

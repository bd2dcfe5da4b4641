"""The schedulers by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolchain.tuning.schedulers.gradient import Gradient
from toolchain.tuning.schedulers.round_robin import RoundRobin
from toolchain.tuning.schedulers.scheduler import Prospect, Scheduler

MakeScheduler = Callable[[int, Sequence[Prospect], int | None], Scheduler]
"""From the trials of a run, its tasks, and the patience with one that stands still."""

SCHEDULERS: dict[str, MakeScheduler] = {"gradient": Gradient, "round-robin": RoundRobin}
"""The first is the default."""

"""The schedulers by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolchain.tuning.schedulers.gradient import Gradient
from toolchain.tuning.schedulers.round_robin import RoundRobin
from toolchain.tuning.schedulers.scheduler import Prospect, Scheduler

MakeScheduler = Callable[[int, Sequence[Prospect], int | None], Scheduler]
"""Makes a scheduler from the number of trials, the tasks' prospects, and the patience of early stopping."""

SCHEDULERS: dict[str, MakeScheduler] = {"gradient": Gradient, "round-robin": RoundRobin}
"""Schedulers by name; the first is the default."""

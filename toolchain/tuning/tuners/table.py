"""The tuners by name."""

from __future__ import annotations

from toolchain.errors import UsageError
from toolchain.tasks.backend import MakeTuner, Network
from toolchain.tasks.space import Space
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Tuner
from toolchain.tuning.tuners.gridsearch import GridSearch
from toolchain.tuning.tuners.random import RandomSearch

TUNERS: dict[str, MakeTuner] = {"gridsearch": GridSearch, "random": RandomSearch}
"""Those that know any space; a backend may have others of its own."""


def tuner_for(network: Network, task: Task, space: Space, name: str | None, seed: int) -> Tuner:
    """Return a tuner for a task.

    Parameters
    ----------
    name
        None: the one that the network's backend takes.

    Raises
    ------
    UsageError
        There is none of that name, or it does not fit the space.
    """
    known = {**TUNERS, **network.tuners}
    wanted = name or network.tuner
    if wanted not in known:
        raise UsageError(
            f"--tuner {wanted}: no tuner of this name searches such code", f"use one of: {', '.join(known)}"
        )
    return known[wanted](task, space, seed)

"""The tuners by name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from toolchain.errors import UsageError
from toolchain.tasks.backend import MakeTuner, Network
from toolchain.tasks.space import P, Space
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Tuner
from toolchain.tuning.tuners.ga import Genetic
from toolchain.tuning.tuners.gridsearch import GridSearch
from toolchain.tuning.tuners.random import RandomSearch
from toolchain.tuning.tuners.xgb import boosted

TUNERS: dict[str, MakeTuner[Any]] = {
    "xgb": boosted("xgb"),
    "xgb-rank": boosted("xgb-rank"),
    "xgb-knob": boosted("xgb-knob"),
    "ga": Genetic,
    "random": RandomSearch,
    "gridsearch": GridSearch,
}
"""Tuners for any space; a backend may have more for its own spaces."""


def tuner_named(network: Network[P], name: str | None) -> MakeTuner[P]:
    """Return the function that makes the tuner of a task.

    Parameters
    ----------
    name
        Name of the tuner; None: the default of the network's backend.

    Raises
    ------
    UsageError
        No tuner has this name.
    """
    known: dict[str, MakeTuner[P]] = {**TUNERS, **network.tuners}
    wanted = name or network.tuner
    if wanted not in known:
        close = get_close_matches(wanted, known, n=1)
        names = ", ".join([*close, *(other for other in known if other not in close)])
        raise UsageError(
            f"--tuner {wanted}: no tuner of this name searches this code", f"use one of: {names}"
        )
    return known[wanted]


def tuner_for(network: Network[P], task: Task, space: Space[P], name: str | None, seed: int) -> Tuner[P]:
    """Return a tuner for a task; see `tuner_named`.

    Raises
    ------
    UsageError
        No tuner has this name, or it cannot search the space.
    """
    return tuner_named(network, name)(task, space, seed)

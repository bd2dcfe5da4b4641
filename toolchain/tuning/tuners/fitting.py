"""Checks that a tuner can search a space."""

from __future__ import annotations

from toolchain.errors import UsageError
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import FiniteSpace, P, Space


def counted(tuner: str, task: Task, space: Space[P]) -> int:
    """Return the number of points of a space.

    Raises
    ------
    UsageError
        The points cannot be counted.
    """
    size = space.size
    if size is None:
        raise _misfit(tuner, task, "cannot be counted")
    return size


def with_decisions(tuner: str, task: Task, space: Space[P]) -> FiniteSpace[P]:
    """Return a space as a `FiniteSpace`, whose decisions have names.

    Raises
    ------
    UsageError
        The space has no named decisions.
    """
    if not isinstance(space, FiniteSpace):
        raise _misfit(tuner, task, "have no named decisions")
    return space


def _misfit(tuner: str, task: Task, why: str) -> UsageError:
    return UsageError(
        f"--tuner {tuner} does not fit the space: the ways to compute task {task.id} ({task.name}) {why}",
        "leave --tuner out, or use --tuner xgb or random",
    )

"""Whether a tuner can search a space at all."""

from __future__ import annotations

from toolchain.errors import UsageError
from toolchain.tasks.finite import FiniteSpace
from toolchain.tasks.space import P, Space
from toolchain.tasks.task import Task


def counted(tuner: str, task: Task, space: Space[P]) -> int:
    """Return how many points a space has.

    Raises
    ------
    UsageError
        They cannot be counted.
    """
    size = space.size
    if size is None:
        raise _misfit(tuner, task, "cannot be counted")
    return size


def with_decisions(tuner: str, task: Task, space: Space[P]) -> FiniteSpace[P]:
    """Return a space as one whose decisions have names.

    Raises
    ------
    UsageError
        They have none.
    """
    if not isinstance(space, FiniteSpace):
        raise _misfit(tuner, task, "are no decisions with names")
    return space


def _misfit(tuner: str, task: Task, why: str) -> UsageError:
    return UsageError(
        f"--tuner {tuner} does not fit the space: the ways to compute task {task.id} ({task.name}) {why}",
        "leave --tuner out, or use --tuner xgb or random",
    )

"""What a tuning run tells whoever shows its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from toolchain.devices.failure import Failure
from toolchain.tasks.task import Task


@dataclass(frozen=True)
class Began:
    """A run begins: these tasks, and so many trials at most."""

    tasks: tuple[Task, ...]
    trials: int


@dataclass(frozen=True)
class Trial:
    """One candidate was measured, or failed.

    Attributes
    ----------
    stage
        `default`: what a build takes without records. `recorded`: what it takes by those of a model or of
        other places. `search`: a trial.
    ms
        Mean over the repeats; None for a failure.
    best_ms
        Of the task so far, by its searched candidates and the default.
    """

    task: Task
    stage: Literal["default", "recorded", "search"]
    ms: float | None
    best_ms: float
    failure: Failure | None = None
    message: str = ""
    board: str = ""


@dataclass(frozen=True)
class TurnBegan:
    """A task is given trials."""

    task: Task
    trials: int


@dataclass(frozen=True)
class TurnEnded:
    """A task has used the trials of a turn, or as many as it had use for.

    Attributes
    ----------
    used
        How many candidates were measured.
    best_ms
        Of the task so far.
    """

    task: Task
    used: int
    best_ms: float


@dataclass(frozen=True)
class LeftOut:
    """These tasks are not tuned after all."""

    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Step:
    """Something that takes a while begins, or is so far: steps that count, ` 3/7 `, come often."""

    text: str


@dataclass(frozen=True)
class Notice:
    """Something happened that the user should see: a board went away or came back."""

    text: str


Event = Began | Trial | TurnBegan | TurnEnded | LeftOut | Step | Notice
Listener = Callable[[Event], None]

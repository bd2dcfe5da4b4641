"""Events that a tuning run reports to its listener, which shows the progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from toolchain.devices.kind import Failure
from toolchain.tasks.task import Task


@dataclass(frozen=True)
class Began:
    """A run began, with these tasks and at most this number of trials."""

    tasks: tuple[Task, ...]
    trials: int


@dataclass(frozen=True)
class Trial:
    """One candidate was measured, or failed.

    Attributes
    ----------
    stage
        `default`: the point that a build uses without records. `recorded`: the point that it uses because of
        a modelled record or one from another target. `search`: a trial.
    ms
        Mean time over the repeats; None for a failure.
    best_ms
        Best time of the task so far, its default included.
    temperature_c
        Temperature of the board just before; None if it does not say it.
    """

    task: Task
    stage: Literal["default", "recorded", "search"]
    ms: float | None
    best_ms: float
    failure: Failure | None = None
    message: str = ""
    board: str = ""
    temperature_c: float | None = None


@dataclass(frozen=True)
class TurnBegan:
    """A task got trials to use."""

    task: Task
    trials: int


@dataclass(frozen=True)
class TurnEnded:
    """A task used the trials of a turn, or fewer if it had no more candidates.

    Attributes
    ----------
    used
        Number of candidates that were measured.
    best_ms
        Best time of the task so far.
    """

    task: Task
    used: int
    best_ms: float


@dataclass(frozen=True)
class LeftOut:
    """These tasks are left out of the run."""

    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class StepBegan:
    """Something that takes a while began or advanced; texts that count, like ` 3/7 `, come often."""

    text: str


@dataclass(frozen=True)
class Notice:
    """News for the user, such as a board that went away or came back."""

    text: str


@dataclass(frozen=True)
class PowerCycled(Notice):
    """A board was silent and was power-cycled.

    Attributes
    ----------
    answered_s
        Seconds until it answered again; None: it does not.
    """

    board: str
    answered_s: float | None


@dataclass(frozen=True)
class RunVerdict:
    """A run came to its verdict: what builds use from now on, by the last comparison.

    Attributes
    ----------
    text
        A line for the user; the terminal, the page and the report show the same.
    in_network
        Whether whole networks were compared; else the tasks were, each measured alone.
    before_ms, after_ms
        Time of an inference, or of the tasks in it, without tuning and with what builds use now.
    """

    text: str
    in_network: bool
    before_ms: float
    after_ms: float


Event = Began | Trial | TurnBegan | TurnEnded | LeftOut | StepBegan | Notice | RunVerdict
Listener = Callable[[Event], None]

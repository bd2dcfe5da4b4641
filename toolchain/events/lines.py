"""The lines of an event log: one JSON object each, checked when written and when read.

A log has one `BeganLine` first, and an `EndLine` last unless its command was killed.
"""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from toolchain.events.rollouts import AnyEvent
from toolchain.foreign import shortened

MOST_TASKS = 2000
"""Largest number of tasks that a log lists."""

MOST_BOARDS = 5000
"""Largest number of boards that a log lists."""


def _shown(value: Any) -> Any:
    return shortened(value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_shown)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class EventLine(BaseModel):
    """Base class of all lines; `at` is in seconds since 1970."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    at: float = Field(default_factory=lambda: round(time.time(), 3), ge=0, allow_inf_nan=False)


class BeganLine(EventLine):
    """A command began.

    Attributes
    ----------
    kind
        The command's name, such as `tune`.
    title
        The model or bundle that it works on.
    boards
        Names of the boards that it was given.
    """

    event: Literal["began"] = "began"
    kind: Text
    title: Text
    boards: tuple[Text, ...] = Field((), max_length=MOST_BOARDS)


class ListedTask(BaseModel):
    """A task of a tuning run; `weight` is how often the network calls it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: Text
    name: Text
    weight: Count
    flops: Count


class TasksLine(EventLine):
    """The tasks of a tuning run, and its largest number of trials."""

    event: Literal["tasks"] = "tasks"
    tasks: tuple[ListedTask, ...] = Field(max_length=MOST_TASKS)
    trials: Count


class TrialLine(EventLine):
    """A candidate was measured, or failed.

    Attributes
    ----------
    stage
        As of `tuning.events.Trial`.
    number
        How many trials of the search were made so far, this one included.
    ms, best_ms
        Its time, None if it failed; the best time of its task so far.
    temperature_c
        Temperature of the board, if it says it.
    """

    event: Literal["trial"] = "trial"
    task: Text
    stage: Literal["default", "recorded", "search"]
    number: Count
    ms: Milliseconds | None
    best_ms: Milliseconds | None
    failure: Text | None = None
    board: Text = ""
    temperature_c: Annotated[float, Field(ge=-300, le=10_000)] | None = None


class TurnLine(EventLine):
    """The search began or ended a turn of a task."""

    event: Literal["turn"] = "turn"
    task: Text
    begins: bool


class LeftOutLine(EventLine):
    """Tasks were left out of a tuning run."""

    event: Literal["left-out"] = "left-out"
    tasks: tuple[Text, ...] = Field(max_length=MOST_TASKS)


class VerdictLine(EventLine):
    """A tuning run has come to its verdict; fields as of `tuning.events.RunVerdict`."""

    event: Literal["verdict"] = "verdict"
    text: Text
    in_network: bool
    before_ms: Milliseconds
    after_ms: Milliseconds


class StepLine(EventLine):
    """Something that takes a while began or advanced."""

    event: Literal["step"] = "step"
    text: Text


class NoticeLine(EventLine):
    """News for the user, such as a board that went away."""

    event: Literal["notice"] = "notice"
    text: Text


def _shown_values(value: Any) -> Any:
    match value:
        case str():
            return shortened(value)
        case list():
            return [_shown_values(item) for item in value]
        case dict():
            return {key: _shown_values(item) for key, item in value.items()}
    return value


_ROLLOUT: TypeAdapter[AnyEvent] = TypeAdapter(Annotated[AnyEvent, Field(discriminator="event")])


def _shown_event(value: Any) -> AnyEvent:
    """Return an event, or what was read of one, with every text in it fit to be shown."""
    document = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return _ROLLOUT.validate_json(json.dumps(_shown_values(document), allow_nan=False))


class RolloutLine(EventLine):
    """An event of a rollout or a rollback, as its journal has it but for texts, which are shortened."""

    event: Literal["rollout"] = "rollout"
    rollout: Annotated[AnyEvent, BeforeValidator(_shown_event)]


class EndLine(EventLine):
    """The command ended; `killed` is never written, a reader adds it if the command ended without a word,
    at the moment of its last line."""

    event: Literal["ended"] = "ended"
    how: Literal["done", "failed", "interrupted", "killed"]
    message: Text = ""


Line = (
    BeganLine
    | TasksLine
    | TrialLine
    | TurnLine
    | LeftOutLine
    | VerdictLine
    | StepLine
    | NoticeLine
    | RolloutLine
    | EndLine
)
LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="event")])
"""Reads and writes one line."""

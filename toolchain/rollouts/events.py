"""The events of a rollout: what the journal keeps, and the live table shows."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolchain.rollouts.outcome import Outcome


class RolloutEvent(BaseModel):
    """Base class of events; `at` is in seconds since 1970."""

    model_config = ConfigDict(frozen=True)

    at: float = Field(default_factory=time.time)


class Rules(BaseModel):
    """How a rollout goes on: see the options of `toolchain deploy`."""

    model_config = ConfigDict(frozen=True)

    phases: tuple[str, ...] = ("100%",)
    pause_s: float = 0.0
    max_failures: int = 0
    max_slowdown: float = 1.5
    slack_us: int = 1000
    at_once: int = 32
    window_s: float = 600.0


class LabNumbers(BaseModel):
    """The numbers that the verification in the lab measured."""

    model_config = ConfigDict(frozen=True)

    board_class: str
    error_ppb: int
    latency_us: int | None


class RolloutBegan(RolloutEvent):
    """The release, and the boards of each phase; boards beyond the last phase are in `left`."""

    event: Literal["began"] = "began"
    id: str
    app: str
    version: str
    digest: str
    lab: LabNumbers | None
    phases: tuple[tuple[str, ...], ...]
    left: tuple[str, ...] = ()
    rules: Rules


class RolloutResumed(RolloutEvent):
    """A later command went on with the rollout."""

    event: Literal["resumed"] = "resumed"


class PhaseStarted(RolloutEvent):
    """A phase began; phases are counted from 1."""

    event: Literal["phase"] = "phase"
    phase: int


class BoardMoved(RolloutEvent):
    """A board is at a step, or got more bytes; not kept in the journal."""

    event: Literal["moved"] = "moved"
    board: str
    step: str
    sent: int


class BoardCycled(RolloutEvent):
    """A board was silent and was power-cycled; `answered_s`: seconds until it answered, None: it does not."""

    event: Literal["power"] = "power"
    board: str
    answered_s: float | None
    text: str


class BoardDone(RolloutEvent):
    """The end of one board's part."""

    event: Literal["board"] = "board"
    board: str
    phase: int
    outcome: Outcome


class GateJudged(RolloutEvent):
    """Whether the rollout goes on after a phase; the field's median latency and largest error."""

    event: Literal["gate"] = "gate"
    phase: int
    passed: bool
    reason: str
    latency_us: int | None = None
    error_ppb: int | None = None


class RolloutEnded(RolloutEvent):
    """The end: complete, or why it stopped before."""

    event: Literal["ended"] = "ended"
    complete: bool
    reason: str = ""


JournalEvent = (
    RolloutBegan | RolloutResumed | PhaseStarted | BoardCycled | BoardDone | GateJudged | RolloutEnded
)
KeptEvent = Annotated[JournalEvent, Field(discriminator="event")]
AnyEvent = JournalEvent | BoardMoved

"""The events of a rollout, and the outcome of a board: journal, event log, terminal, page and JSON read them.

A journal is a file of these events, so a field that is added here needs a default.
"""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field

from toolchain.answers import Answer, Sentence, Word

Whole = Annotated[int, Field(ge=0, le=2**53)]
"""A number of things, which every reader of JSON has exactly."""


class Cause(Answer):
    """The first failure of an installation, or the failure of the way back."""

    code: Word
    step: Word
    message: Sentence


class FieldTest(Answer):
    """Results of a self-test: largest error in parts per billion, median latency, peak memory.

    The error is None if the outputs cannot be compared: one is not finite, or has another shape.
    """

    error_ppb: Whole | None
    latency_us: Whole
    memory_kib: Whole
    runs: Whole


BoardState = Literal[
    "installed",
    "unchanged",
    "refused",
    "interrupted",
    "rolled-back",
    "broken",
    "offline",
    "failed",
    "skipped",
]
WORKS: frozenset[BoardState] = frozenset({"installed", "unchanged"})
"""States of boards that run the release."""

FAILURES: frozenset[BoardState] = frozenset({"refused", "rolled-back", "broken", "failed"})
"""States that count against `--max-failures`; a board out of reach says nothing about the release."""

PASSING = frozenset({"busy", "link", "resumed", "stopped"})
"""Codes of causes that may be gone soon: another installation, a link, a part that did not fit together."""


class BoardOutcome(BaseModel):
    """The end of a board's part in a rollout or a rollback, or of one try.

    Attributes
    ----------
    state
        The board's own last word; or `offline`: it was never reached; `interrupted`: the link broke or the
        rollout was stopped, and the next try goes on; `failed`: something else went wrong before the release
        was judged; `skipped`: the rollout ended before its turn.
    version
        The version that the board runs now, if known.
    seconds
        Duration of all tries.
    bytes_sent
        Bytes of the stream that were sent, of all tries.
    error, hint
        What went wrong, and what to type.
    test, cause
        The board's self-test of the release, and its reason for the state; None: it gave none.
    power_cycles
        Number of times that the board was power-cycled because it was silent.
    """

    model_config = ConfigDict(frozen=True)

    state: BoardState
    version: str | None = None
    seconds: float = 0.0
    bytes_sent: Whole = 0
    error: str | None = None
    hint: str = ""
    test: FieldTest | None = None
    cause: Cause | None = None
    power_cycles: Whole = 0

    @property
    def works(self) -> bool:
        """Whether the board runs the release that it was sent."""
        return self.state in WORKS

    @property
    def failed(self) -> bool:
        """Whether the board counts against `--max-failures`."""
        return self.state in FAILURES

    @property
    def may_pass(self) -> bool:
        """Whether another try may end otherwise: the board is away or busy, or the link broke."""
        if self.cause is None:
            return self.state in ("offline", "interrupted")
        return self.state in ("interrupted", "refused") and self.cause.code in PASSING


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
    phase: Whole


class BoardMoved(RolloutEvent):
    """A board is at a step, or got more bytes; not kept in the journal."""

    event: Literal["moved"] = "moved"
    board: str
    step: str
    sent: Whole


class BoardCycled(RolloutEvent):
    """A board was silent and was power-cycled; `answered_s`: seconds until it answered, None: it does not."""

    event: Literal["power"] = "power"
    board: str
    answered_s: float | None
    text: str


class BoardDone(RolloutEvent):
    """The end of one board's part; `phase` is 0 in a rollback, which has no phases."""

    event: Literal["board"] = "board"
    board: str
    phase: Whole
    outcome: BoardOutcome

    @computed_field  # type: ignore[prop-decorator]
    @property
    def works(self) -> bool:
        """Whether the board runs what the command wanted it to: the release, or the one before."""
        return self.outcome.works if self.phase else self.outcome.state == "rolled-back"


class GateJudged(RolloutEvent):
    """Whether the rollout goes on after a phase; the field's median latency and largest error."""

    event: Literal["gate"] = "gate"
    phase: Whole
    passed: bool
    reason: str
    latency_us: int | None = None
    error_ppb: int | None = None


class RolloutEnded(RolloutEvent):
    """The end: complete, or why it stopped before."""

    event: Literal["ended"] = "ended"
    complete: bool
    reason: str = ""


class ReleaseStored(RolloutEvent):
    """A carrier put the release where others take it from: a file, or a manifest in a registry.

    Attributes
    ----------
    place
        The file's path, or the address that names these bytes whatever happens there later.
    bytes
        Size of the file; None for a registry.
    """

    event: Literal["stored"] = "stored"
    place: str
    sha256: str
    bytes: int | None = None


JournalEvent = (
    RolloutBegan | RolloutResumed | PhaseStarted | BoardCycled | BoardDone | GateJudged | RolloutEnded
)
AnyEvent = JournalEvent | BoardMoved
CarrierEvent = AnyEvent | ReleaseStored

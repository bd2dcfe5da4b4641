"""The lines that `edge-rt install` and `edge-rt rollback` print (docs/release-format.md), checked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from toolchain.answers import Answer, Sentence, Several, Word

Ended = Literal["installed", "unchanged", "refused", "interrupted", "rolled-back", "broken"]
InstallStep = Literal[
    "preflight", "receive", "check", "unpack", "test", "activate", "health", "commit", "rollback"
]
_Whole = Annotated[int, Field(ge=0, le=2**53)]


class Cause(Answer):
    """The first failure of an installation, or the failure of the way back."""

    code: Word
    step: Word
    message: Sentence


class FieldTest(Answer):
    """Results of a self-test: largest error in parts per billion, median latency, peak memory.

    The error is None if the outputs cannot be compared: one is not finite, or has another shape.
    """

    error_ppb: _Whole | None
    latency_us: _Whole
    memory_kib: _Whole
    runs: _Whole


class AtWork(Answer):
    """The process that holds the board's lock for installations, and what it does."""

    pid: _Whole
    what: Word


class Tried(Answer):
    """The release that was installed last, or tried, and the number that its host gave the attempt."""

    version: Word | None
    digest: Word | None
    attempt: Word | None = None


class AppThere(Answer):
    """One application on a board; `since` is in seconds since 1970, `newest` is the newest it ever ran.

    `digest` is the bundle's; `statement` that of what was signed, which tells releases of a bundle apart.
    """

    app: Word
    state: Literal["installing", "cut", "broken", "active", "none"]
    version: Word | None
    digest: Word | None
    statement: Word | None = None
    previous: Word | None
    newest: Word | None = None
    since: _Whole
    tried: Tried | None = None
    error: Cause | None = None


class TrustThere(Answer):
    """The trust of a board: its version, and when it expires, in seconds since 1970."""

    version: _Whole
    expires: _Whole


class FieldStatus(Answer):
    """The answer of `edge-rt status`."""

    apps: Several[AppThere] = Field(max_length=1000)
    trust: TrustThere | None
    at_work: AtWork | None

    def find(self, app: str) -> AppThere | None:
        """Return the application of that name."""
        return next((each for each in self.apps if each.app == app), None)


class InstallLine(Answer):
    """One line of an installation: a step that begins, the parts that are needed, or the result."""

    step: InstallStep | None = None
    need: tuple[tuple[_Whole, _Whole], ...] | None = Field(None, max_length=256)
    end: Ended | None = None
    app: Word | None = None
    version: Word | None = None
    digest: Word | None = None
    previous: Word | None = None
    attempt: Word | None = None
    received: _Whole = 0
    test: FieldTest | None = None
    cause: Cause | None = None
    rollback: Cause | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> InstallLine:
        if sum(each is not None for each in (self.step, self.need, self.end)) != 1:
            raise ValueError("it is none of step, need and end, or several of them")
        return self

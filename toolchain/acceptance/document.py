"""The document of an acceptance: results, numbers, words from known sets; not whose board it is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from toolchain.acceptance.found import Found
from toolchain.answers import problem
from toolchain.errors import UsageError
from toolchain.files.plain import open_plain

MOST_BYTES = 2**20
"""Largest size of a document; one of a whole run has about 50 KB."""

Result = Literal["passed", "failed", "skipped", "missed"]
"""`missed`: a number is beyond what the class promises. `skipped` has a reason."""

StepName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}(:[a-z0-9][a-z0-9._-]{0,47}){0,2}$")]
ClassName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class StepReport(_Strict):
    """The result of one step.

    Attributes
    ----------
    reason
        Why it was skipped, failed or missed; or a caveat. Composed by this program, never text of a board.
    seconds
        Duration of the step.
    found
        What was found; None if the step did not get that far.
    """

    name: StepName
    result: Result
    reason: str = Field("", pattern=r"^[ -~]{0,400}$")
    seconds: float = Field(0.0, ge=0, le=1e7)
    found: Annotated[Found, Field(discriminator="kind")] | None = None

    @model_validator(mode="after")
    def _explains_itself(self) -> Self:
        if self.result != "passed" and not self.reason:
            raise ValueError(f"a step that {self.result} needs a reason")
        return self


class Acceptance(_Strict):
    """The results of all steps on one board.

    Attributes
    ----------
    toolchain, edge_rt
        Versions: that of this program, and the first digits of edge-rt's fingerprint.
    board_class
        Name of the class; `own` for one that does not come with the toolchain.
    emulated
        Whether the board is emulated: then no time says anything about silicon.
    shared_cpu
        Whether other programs used its CPU meanwhile, because it is the host's.
    date
        Day on which the acceptance began.
    """

    schema_version: Literal[1] = 1
    toolchain: str = Field(pattern=r"^[0-9][0-9a-z.+-]{0,31}$")
    edge_rt: str = Field(pattern=r"^[0-9a-f]{12}$")
    board_class: ClassName
    emulated: bool
    shared_cpu: bool
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    steps: tuple[StepReport, ...] = Field(max_length=500)

    @model_validator(mode="after")
    def _has_each_step_once(self) -> Self:
        names = [step.name for step in self.steps]
        if len(names) != len(set(names)):
            raise ValueError("a step occurs twice")
        return self

    def count(self, result: Result) -> int:
        """Return how many steps have a result."""
        return sum(step.result == result for step in self.steps)

    @property
    def passed(self) -> bool:
        """Whether no step failed."""
        return self.count("failed") == 0

    def text(self) -> str:
        """Return the document as JSON."""
        return self.model_dump_json(indent=2) + "\n"


def read_acceptance(path: Path) -> Acceptance:
    """Read a document that somebody handed over.

    Raises
    ------
    UsageError
        The file cannot be read, is too large, or is no such document; the message names the field.
    """
    try:
        with open_plain(path) as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", "name a file of `board accept`"
        ) from error
    if len(text) > MOST_BYTES:
        raise UsageError(
            f"{path} has more than {MOST_BYTES} bytes, no acceptance is as long",
            "name a file of `board accept`",
        )
    try:
        return Acceptance.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise UsageError(
            f"{path} is no acceptance of schema 1: {problem(error)}",
            "write it again: `toolchain board accept BOARD`",
        ) from error


def rounded(number: float) -> float:
    """Return a number with four digits: a second measurement differs by more."""
    return float(f"{number:.4g}") if math.isfinite(number) else 0.0

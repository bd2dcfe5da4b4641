"""What `edge-rt run` and `edge-rt bench` answer, and how their failures look."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from toolchain.answers import Answer, Sentence, Several, Word
from toolchain.architectures.least_time import LEAST_MS
from toolchain.boards.edge_rt.answers import Celsius

# A year, in milliseconds: no inference takes longer, and sums of such numbers stay finite.
_LONGEST_MS = 3.2e10
_MOST_THREADS = 1024  # as edge-rt's own

Milliseconds = Annotated[float, Field(ge=LEAST_MS, le=_LONGEST_MS)]


class Output(Answer):
    """One output, as the library returned it."""

    shape: Several[int] = Field(max_length=32)
    dtype: Word


class Ran(Answer):
    """The answer of `edge-rt run`: the outputs in their order, whose numbers are in a file."""

    outputs: Several[Output]
    threads: int = Field(ge=1, le=_MOST_THREADS)


class Operator(Answer):
    """Calls and milliseconds of an operator in one inference."""

    name: Sentence
    calls: float = Field(ge=0, le=1e12)
    ms: float = Field(ge=0, le=_LONGEST_MS)


class Copies(Answer):
    """Milliseconds to bring all inputs to a device's memory, and all outputs back."""

    to_device: float = Field(ge=0, le=_LONGEST_MS)
    from_device: float = Field(ge=0, le=_LONGEST_MS)


class Simulated(Answer):
    """What a cycle model says of a program, at the design's clock."""

    ms: Milliseconds
    cycles: int = Field(ge=1, le=2**53)
    mhz: int = Field(ge=1, le=2**20)
    version: int = Field(ge=1, le=2**31)


class Modelled(Simulated):
    """What it says of all programs of an inference."""

    programs: int = Field(ge=1, le=2**20)


class Timed(Answer):
    """The answer of `edge-rt bench`.

    Attributes
    ----------
    times_ms
        Every sample, the mean of `number` inferences.
    copies_ms
        No part of the samples; None where the network computes in the host's memory.
    modelled
        None unless an accelerator was simulated.
    operators
        The slowest first; only of a profile.
    """

    times_ms: Several[Milliseconds] = Field(min_length=1)
    number: int = Field(ge=1, le=2**40)
    runs: int
    threads: int = Field(ge=1, le=_MOST_THREADS)
    spin_us: int = Field(ge=0, le=10**9)
    peak_rss_mib: float = Field(ge=0, le=2**30)
    governor: Word | None
    temperature_c: Celsius | None
    copies_ms: Copies | None = None
    modelled: Modelled | None = None
    operators: Several[Operator] = Field((), max_length=100_000)

    @property
    def profiled(self) -> bool:
        """Whether operators were timed too."""
        return "operators" in self.model_fields_set

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.runs != len(self.times_ms):
            raise ValueError(f"runs is {self.runs}, but times_ms has {len(self.times_ms)}")
        return self


class Holder(Answer):
    """Who measures on a busy board: the number of a process there, and what it does."""

    pid: int = Field(ge=1, le=2**31)
    what: Sentence


class Problem(Answer):
    """Why edge-rt failed: what it needs and the CPU lacks, or who holds a busy board.

    `kind` is one word for programs; `value`: the network refuses a value that it was given.
    """

    message: Sentence
    kind: Word = ""
    missing: Several[Word] = Field((), max_length=2000)
    holder: Holder | None = None


class Failed(Answer):
    """The answer of any verb that failed."""

    error: Problem

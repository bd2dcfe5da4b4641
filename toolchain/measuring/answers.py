"""The schemas of the answers of `edge-rt run` and `edge-rt bench`, and of their failures."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from toolchain.answers import Answer, Sentence, Several, Word
from toolchain.architectures.least_time import LEAST_MS, LONGEST_MS
from toolchain.boards.edge_rt.answers import Celsius, Holder

_MOST_THREADS = 1024  # the limit in edge-rt

Milliseconds = Annotated[float, Field(ge=LEAST_MS, le=LONGEST_MS)]


class Output(Answer):
    """Shape and dtype of one output of the library."""

    shape: Several[int] = Field(max_length=32)
    dtype: Word


class Ran(Answer):
    """The answer of `edge-rt run`: its outputs in order. Their values are in a file."""

    outputs: Several[Output]
    threads: int = Field(ge=1, le=_MOST_THREADS)


class Operator(Answer):
    """The number of calls and the time in ms of an operator in one inference."""

    name: Sentence
    calls: float = Field(ge=0, le=1e12)
    ms: float = Field(ge=0, le=LONGEST_MS)


class Copies(Answer):
    """Times in ms to copy all inputs to a device's memory, and all outputs back."""

    to_device: float = Field(ge=0, le=LONGEST_MS)
    from_device: float = Field(ge=0, le=LONGEST_MS)


class Simulated(Answer):
    """The modelled time of a VTA program at the design's clock rate.

    Attributes
    ----------
    version
        Version of the cycle model.
    """

    ms: Milliseconds
    cycles: int = Field(ge=1, le=2**53)
    mhz: int = Field(ge=1, le=2**20)
    version: int = Field(ge=1, le=2**31)


class Modelled(Simulated):
    """The modelled time of all programs of an inference."""

    programs: int = Field(ge=1, le=2**20)


class Timed(Answer):
    """The answer of `edge-rt bench`.

    Attributes
    ----------
    times_ms
        All samples in ms; each is the mean of `number` inferences.
    copies_ms
        Times of copies, which the samples do not include; None if the network computes in host memory.
    modelled
        Modelled time; None unless an accelerator was simulated.
    graph
        Whether the device began the network's kernels as one graph.
    operators
        Operators, the slowest first; only in a profile.
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
    graph: bool = False
    operators: Several[Operator] = Field((), max_length=100_000)

    @property
    def profiled(self) -> bool:
        """Whether operators were timed, too."""
        return "operators" in self.model_fields_set

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.runs != len(self.times_ms):
            raise ValueError(f"runs is {self.runs}, but times_ms has {len(self.times_ms)}")
        return self


class FailureReason(Answer):
    """The reason why edge-rt failed.

    Attributes
    ----------
    kind
        Code of the failure, for programs to read. For example, the code `value` means that an input has a
        value for which the network is not defined.
    missing
        CPU features, functions or devices that the bundle needs and the board lacks.
    holder
        The process that holds a busy board; if its lock was free in that moment, the first of those that
        waited.
    ahead
        Number of others that wait and came earlier.
    """

    message: Sentence
    kind: Word = ""
    missing: Several[Word] = Field((), max_length=2000)
    holder: Holder | None = None
    ahead: int = Field(0, ge=0, le=10_000)


class Failed(Answer):
    """The answer of any edge-rt command that failed."""

    error: FailureReason

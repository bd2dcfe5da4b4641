"""Who says which points of a space are worth a measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Generic, Protocol

from toolchain.devices.failure import Failure
from toolchain.tasks.candidate import Entry
from toolchain.tasks.space import P


@dataclass(frozen=True)
class Result:
    """What became of one candidate: milliseconds of one call, one for each repeat; or why there are none.

    Attributes
    ----------
    board
        Which measured; empty where none did.
    governor, temperature_c
        Of the board's CPU just before, where readable.
    modelled
        The time was computed by a model of the device: no clock has shown it.
    """

    run_ms: tuple[float, ...] = ()
    failure: Failure | None = None
    message: str = ""
    board: str = ""
    governor: str | None = None
    temperature_c: float | None = None
    modelled: bool = False

    @property
    def mean_ms(self) -> float:
        """Mean over the repeats."""
        return fmean(self.run_ms)


class Tuner(Protocol[P]):
    """Searches one space. It proposes no point twice, and none that it was told the result of.

    It may be asked for more while what it proposed is still being measured.

    Attributes
    ----------
    transfers
        It makes use of `transfer`: what other tasks have taught is worth being read from the store.
    """

    @property
    def transfers(self) -> bool: ...

    def propose(self, count: int) -> list[P]:
        """Return at most `count` points to measure next; none: the space is exhausted.

        Raises
        ------
        ToolchainError
            The search failed.
        """

    def learn(self, measured: Sequence[tuple[P, Result]]) -> None:
        """Take note of results, in any order: of what was proposed, or, before that, of what others measured.

        What failed is as good to know as what ran.
        """

    def transfer(self, experience: Experience[P]) -> None:
        """Begin with what other tasks have taught, before anything is proposed; a tuner may ignore it."""

    def close(self) -> None:
        """Let go of what the search holds."""


@dataclass(frozen=True)
class Foreign:
    """A point of another space of the same backend, as the store has it.

    Attributes
    ----------
    definition
        Of the task that it was measured for.
    """

    entry: Entry
    definition: str
    result: Result


@dataclass(frozen=True)
class Experience(Generic[P]):
    """What such points say about one space.

    Attributes
    ----------
    lessons
        Features and result of points, those of one task in one place together: only they can be compared.
    points
        Of this space: those most like the best of others, of the most similar task first.
    """

    lessons: Sequence[Sequence[tuple[Sequence[float], Result]]] = field(default=())
    points: Sequence[P] = field(default=())

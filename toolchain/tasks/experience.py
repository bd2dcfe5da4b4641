"""What is known before a space is searched: measurements of other tasks, and of this one in other places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from toolchain.tasks.candidate import Entry
from toolchain.tasks.space import Point
from toolchain.tasks.tuner import Result


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
class Experience:
    """What such points say about one space.

    Attributes
    ----------
    lessons
        Features and result of points, those of one task in one place together: only they can be compared.
    points
        Of this space: those most like the best of others, of the most similar task first.
    """

    lessons: Sequence[Sequence[tuple[Sequence[float], Result]]] = field(default=())
    points: Sequence[Point] = field(default=())

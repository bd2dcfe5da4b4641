"""Points that need no second measurement."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tasks.space import Point
from toolchain.tasks.tuner import Result


class Seen:
    """Base of tuners that learn nothing but what was measured."""

    def __init__(self) -> None:
        self.seen: set[Point] = set()

    def learn(self, measured: Sequence[tuple[Point, Result]]) -> None:
        """Leave these points out from now on."""
        self.seen.update(point for point, _result in measured)

    def close(self) -> None:
        """Do nothing: nothing is held."""

"""A tuner that proposes the points of an exported folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from toolchain.tasks.space import P
from toolchain.tasks.tuner import Experience, Result


class Listed(Generic[P]):
    """Proposes given points in their order, and learns nothing; see `tasks.tuner.Tuner`."""

    transfers = False

    def __init__(self, points: Sequence[P]) -> None:
        self._left = list(points)

    def propose(self, count: int) -> list[P]:
        """Return the next points."""
        proposed, self._left = self._left[:count], self._left[count:]
        return proposed

    def learn(self, measured: Sequence[tuple[P, Result]]) -> None:
        """Learn nothing."""

    def transfer(self, experience: Experience[P]) -> None:
        """Learn nothing."""

    def close(self) -> None:
        """Hold nothing."""

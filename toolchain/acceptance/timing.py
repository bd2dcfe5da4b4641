"""Divides the time that the user gives among the steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class TimeLeft:
    """The user's time limit for one call.

    Attributes
    ----------
    seconds
        The limit.
    now
        Clock in seconds.
    """

    seconds: float
    now: Callable[[], float] = time.monotonic
    begun: float = field(init=False)
    _pace: dict[str, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.begun = self.now()

    @property
    def left_s(self) -> float:
        """Seconds until the limit; negative after it."""
        return self.begun + self.seconds - self.now()

    def part(self, share: float, least: float, most: float) -> float:
        """Return the seconds that a step may take: a share of what is left, within bounds."""
        return min(most, max(least, share * self.left_s))

    def note(self, kind: str, work: float, took: float) -> None:
        """Remember the seconds that a step of some kind took for its amount of work."""
        if work > 0:
            self._pace[kind] = took / work

    def fits(self, kind: str, work: float) -> bool:
        """Return whether a step may begin: there is time for it, by the pace of the last step of its kind."""
        return self.left_s > max(0.0, self._pace.get(kind, 0.0) * work)

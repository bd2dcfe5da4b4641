"""The time limits of a run and of its stages."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from toolchain.errors import ToolchainError

SEARCH_SHARE = 0.75
"""Share of the user's time in which trials may begin; the rest is for comparing the fastest again."""

_DEFAULTS_SHARE = 0.5  # of the time for the search: the other half is left for trials
_SHARE_OF_SEARCH = 1 / 3  # limit of the comparison in the network if the user gave no time
_LEAST_S = 60.0


class TimeUpError(ToolchainError):
    """Too little of the user's time is left for the next stage."""


@dataclass(frozen=True)
class Allowance:
    """The time limit of a stage.

    Attributes
    ----------
    until
        The end of the stage on the clock of `time.monotonic`.
    firm
        Whether the user gave the limit: then nothing begins that would clearly end after it. If not, the
        stage does the least that it needs, even if that takes longer.
    """

    until: float
    firm: bool = False

    @property
    def left_s(self) -> float:
        """Seconds until the limit; negative after it."""
        return self.until - time.monotonic()

    @property
    def up(self) -> bool:
        """Whether the limit is firm and has passed."""
        return self.firm and self.left_s <= 0

    def fits(self, seconds: float) -> bool:
        """Whether work that takes this many seconds may begin."""
        return not self.firm or seconds <= self.left_s

    def without(self, seconds: float) -> Allowance:
        """Return a limit that is earlier by `seconds`, which are reserved for a later stage."""
        return replace(self, until=self.until - seconds)


@dataclass(frozen=True)
class RunTime:
    """The user's time limit for a whole run.

    Attributes
    ----------
    seconds
        Seconds for the whole run; None: no limit.
    begun
        The start of the run on the clock of `time.monotonic`.
    """

    seconds: float | None = None
    begun: float = field(default_factory=time.monotonic)

    def search(self) -> Allowance | None:
        """Return the time limit of the search; None if it has none."""
        if self.seconds is None:
            return None
        return Allowance(self.begun + SEARCH_SHARE * self.seconds, firm=True)

    def defaults(self) -> Allowance | None:
        """Return the time limit for measuring the defaults; None if it has none."""
        if self.seconds is None:
            return None
        return Allowance(self.begun + _DEFAULTS_SHARE * SEARCH_SHARE * self.seconds, firm=True)

    def conclusion(self) -> Allowance:
        """Return the time limit for comparing the finalists, in the network or alone."""
        if self.seconds is not None:
            return Allowance(self.begun + self.seconds, firm=True)
        searched = time.monotonic() - self.begun
        return Allowance(time.monotonic() + max(_LEAST_S, searched * _SHARE_OF_SEARCH))

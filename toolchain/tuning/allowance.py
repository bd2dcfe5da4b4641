"""How long a run may take, and which stage gets how much of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from toolchain.errors import ToolchainError

SEARCH_SHARE = 0.75
"""Of the time that a user gives, until the last trial begins; the rest is for the network."""

_DEFAULTS_SHARE = 0.5  # of the time for the search: without trials nothing is found
_SHARE_OF_SEARCH = 1 / 3  # so long the network may take where no time was given
_LEAST_S = 60.0


class TimeUpError(ToolchainError):
    """What is left of the user's time is too little for what comes next."""


@dataclass(frozen=True)
class Allowance:
    """Until when a stage may take.

    Attributes
    ----------
    until
        A moment of `time.monotonic`.
    firm
        A user gave the time: nothing begins after it, and nothing that would clearly end after it. Else the
        least that a stage needs is done however long that takes.
    """

    until: float
    firm: bool = False

    @property
    def left_s(self) -> float:
        """Seconds until then; below 0 afterwards."""
        return self.until - time.monotonic()

    @property
    def up(self) -> bool:
        """Whether nothing more may begin."""
        return self.firm and self.left_s <= 0

    def fits(self, seconds: float) -> bool:
        """Whether something that takes so long may begin."""
        return not self.firm or seconds <= self.left_s

    def without(self, seconds: float) -> Allowance:
        """Return what is left for a stage, if so many seconds are kept for the one after it."""
        return replace(self, until=self.until - seconds)


@dataclass(frozen=True)
class RunTime:
    """What a user gave a run.

    Attributes
    ----------
    seconds
        For all of it; None: as long as it takes.
    begun
        A moment of `time.monotonic`.
    """

    seconds: float | None = None
    begun: float = field(default_factory=time.monotonic)

    def search(self, *, to_the_end: bool) -> Allowance | None:
        """Return until when trials begin; None: there is no limit.

        Parameters
        ----------
        to_the_end
            No network is timed afterwards.
        """
        if self.seconds is None:
            return None
        share = 1.0 if to_the_end else SEARCH_SHARE
        return Allowance(self.begun + share * self.seconds, firm=True)

    def defaults(self) -> Allowance | None:
        """Return until when the measurement of another default begins; None: there is no limit."""
        if self.seconds is None:
            return None
        return Allowance(self.begun + _DEFAULTS_SHARE * SEARCH_SHARE * self.seconds, firm=True)

    def conclusion(self) -> Allowance:
        """Return until when finalists are compared, in the network or alone."""
        if self.seconds is not None:
            return Allowance(self.begun + self.seconds, firm=True)
        searched = time.monotonic() - self.begun
        return Allowance(time.monotonic() + max(_LEAST_S, searched * _SHARE_OF_SEARCH))

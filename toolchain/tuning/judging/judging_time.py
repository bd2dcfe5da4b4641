"""Predicts how long judging in the network takes, and keeps it within its time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import ceil

from toolchain.errors import ToolchainError
from toolchain.quantities import counted
from toolchain.tuning.allowance import SEARCH_SHARE, Allowance, TimeUpError

_LEAST = 3  # least number of rounds, even if they exceed the limit
_LEAST_IN_TIME = 2  # the same within a user's limit: one round has no confidence interval
_RUNS = 5  # inferences of a slow network for one profile: one to warm up, one timed, three by function
_START_S = 0.5  # of a measurement, besides the inferences
_MARGIN = 1.2  # factor of the time that a message suggests
_TYPED_S = 60  # the suggested time is a multiple of this


class JudgingTime:
    """The time of one judgement.

    Parameters
    ----------
    networks
        Number of variants that are built and timed alternately, without the one with the winners.
    step
        Called with the name of the next step.
    """

    def __init__(self, allowed: Allowance, networks: int, step: Callable[[str], None]) -> None:
        self._allowed, self._networks, self._step = allowed, networks, step
        self._least = _LEAST_IN_TIME if allowed.firm else _LEAST
        self._inference_s = 0.0
        self._needed_s: float | None = None
        self._last_s = 0.0

    def begin(self, text: str) -> None:
        """Report the next step.

        Raises
        ------
        TimeUpError
            The user's time is over.
        """
        self.check()
        self._step(text)

    def check(self) -> None:
        """Raise a TimeUpError if the user's time is over."""
        if self._allowed.up:
            raise self._too_little()

    def foresee(self, build_s: float, look: Callable[[float | None], float]) -> None:
        """Time one inference, and raise at once if the user's time is too short for the rest.

        Parameters
        ----------
        build_s
            Seconds that one build of the network took.
        look
            Times a first inference within a timeout in seconds, None for the default; returns its seconds.

        Raises
        ------
        TimeUpError
            The user's time is too short for the least number of rounds.
        ToolchainError
            The network fails.
        """
        self.begin("timing a first inference of the network")
        try:
            self._inference_s = look(self._allowed.left_s if self._allowed.firm else None)
        except ToolchainError:
            if self._allowed.up:
                raise self._too_little() from None
            raise
        measurement_s = _START_S + _RUNS * self._inference_s
        self._last_s = build_s + (2 * self._least + 1) * measurement_s  # the output is compared, too
        self._needed_s = (self._networks - 1) * build_s + self._networks * self._least * measurement_s
        self._needed_s += self._last_s
        if not self._allowed.fits(self._needed_s):
            raise self._too_little()

    def rounds(self, most: int, what: str, *, last: bool) -> Iterator[int]:
        """Yield the number of each round that there is time for; call `check` before each measurement.

        Parameters
        ----------
        most
            Largest number of rounds.
        what
            Description of what is timed, for the user.
        last
            Whether this is the last stage; if not, time is reserved for it.
        """
        allowed = self._allowed.without(0.0 if last else self._last_s)
        longest = 0.0
        for done in range(most):
            begun = time.monotonic()
            if done >= self._least and allowed.left_s < (longest if allowed.firm else 0.0):
                return
            self.begin(
                f"timing {what}: {done + 1}/{counted(most, 'round')} at most, "
                f"{self._inference_s:.2g} s an inference"
            )
            yield done
            longest = max(longest, time.monotonic() - begun)

    def _too_little(self) -> TimeUpError:
        if self._needed_s is None:
            return TimeUpError(
                "--time is too short to build the network and time one inference",
                "with four times as much, tune can say how much it needs; without --time the network decides",
            )
        wanted = ceil(_MARGIN * self._needed_s / (1 - SEARCH_SHARE) / _TYPED_S) * _TYPED_S
        return TimeUpError(
            f"an inference takes {self._inference_s:.2g} s, judging about {self._needed_s:.0f} s, "
            f"and --time leaves {max(0.0, self._allowed.left_s):.0f} s for it",
            f"without --time, or with --time {wanted}, the network decides",
        )

"""The time in which the network is judged: what it will take, whether that fits, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import ceil

from toolchain.errors import ToolchainError
from toolchain.tuning.allowance import SEARCH_SHARE, Allowance, TimeUpError

_LEAST = 3  # rounds, however little time there is
_LEAST_IN_TIME = 2  # where a user gave the time: fewer cannot say how sure they are
_RUNS = 5  # inferences of a slow network for one profile: one to warm up, one timed, three by function
_START_S = 0.5  # of a measurement, besides the inferences
_MARGIN = 1.2  # of the time that is suggested
_TYPED_S = 60  # what is suggested is a multiple of this


class JudgingTime:
    """The time of one judgement.

    Parameters
    ----------
    networks
        How many are built and timed in turn, besides the one with the winners.
    step
        Called with what comes next.
    """

    def __init__(self, allowed: Allowance, networks: int, step: Callable[[str], None]) -> None:
        self._allowed, self._networks, self._step = allowed, networks, step
        self._least = _LEAST_IN_TIME if allowed.firm else _LEAST
        self._inference_s = 0.0
        self._needed_s: float | None = None
        self._last_s = 0.0

    def begin(self, text: str) -> None:
        """Say what comes next.

        Raises
        ------
        TimeUpError
            It is too late for that.
        """
        self.check()
        self._step(text)

    def check(self) -> None:
        """Raise what `begin` does."""
        if self._allowed.up:
            raise self._too_little()

    def foresee(self, build_s: float, look: Callable[[float | None], float]) -> None:
        """Time one inference, and give up at once where the user's time is too short for all that follows.

        Parameters
        ----------
        build_s
            What one network took to build.
        look
            Returns seconds of a first inference, for which it has as many as it is called with.

        Raises
        ------
        TimeUpError
            It is too short for the least number of rounds.
        ToolchainError
            The network does not run.
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
        """Yield the number of each round that there is time for; `check` before each of its measurements.

        Parameters
        ----------
        most
            So many rounds where time is no matter.
        what
            Is timed.
        last
            Nothing else comes afterwards.
        """
        allowed = self._allowed.without(0.0 if last else self._last_s)
        longest = 0.0
        for done in range(most):
            begun = time.monotonic()
            if done >= self._least and allowed.left_s < (longest if allowed.firm else 0.0):
                return
            self.begin(
                f"timing {what}: {done + 1}/{most} rounds at most, {self._inference_s:.2g} s an inference"
            )
            yield done
            longest = max(longest, time.monotonic() - begun)

    def _too_little(self) -> TimeUpError:
        if self._needed_s is None:
            return TimeUpError(
                "--time leaves too little to build the network and to time an inference",
                "with four times as much it says what it takes; without --time the network decides",
            )
        wanted = ceil(_MARGIN * self._needed_s / (1 - SEARCH_SHARE) / _TYPED_S) * _TYPED_S
        return TimeUpError(
            f"an inference takes {self._inference_s:.2g} s, judging about {self._needed_s:.0f} s, "
            f"and --time leaves {max(0.0, self._allowed.left_s):.0f} s for it",
            f"without --time, or with --time {wanted}, the network decides",
        )

"""Judges the finalists of all tasks by timing the whole network on a board.

A candidate measured alone finds its operands in the cache; in the network, the previous function has left
other data there. So the network is compiled with one candidate for each task, for all tasks at once, and
a profile gives the time of every function. The winners by more than the noise are combined, and the network
with them, timed alternately with the untuned one, must win, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError
from toolchain.measuring.execute import BusyError
from toolchain.quantities import shown_ms
from toolchain.tuning.allowance import Allowance, TimeUpError
from toolchain.tuning.judging.gain import Gain, fastest, gain
from toolchain.tuning.judging.judging_time import JudgingTime

_ROUNDS = 5  # number of profiles of each variant
_LAST_ROUNDS = 9  # number of times of each whole network: the gain is a few percent, about the noise

_OF_THE_BOARD = (LostError, BusyError)  # these say nothing of a network

Variant = TypeVar("Variant")


class NetworkBench(Protocol[Variant]):
    """Builds variants of a network from points and times them on one board."""

    def variant(self, points: Mapping[str, Any], step: Callable[[str], None]) -> Variant:
        """Build the network with the given points; the other tasks keep their defaults.

        Parameters
        ----------
        points
            Workload -> point of its task.
        step
            Called with the name of each step; it may raise to stop the build.

        Raises
        ------
        ToolchainError
            The network cannot be built.
        """

    def look(self, variant: Variant, limit_s: float | None) -> float:
        """Time a first inference; return its seconds.

        Parameters
        ----------
        limit_s
            Timeout in seconds; None: a generous one computed from the network.

        Raises
        ------
        ToolchainError
            The network fails, or exceeds the timeout.
        """

    def profile(self, variant: Variant) -> tuple[float, Mapping[str, float]]:
        """Time the network; return its time, and by workload the time of all calls of a task, in ms.

        Raises
        ------
        ToolchainError
            The network fails.
        """

    def time(self, variant: Variant) -> float:
        """Time the network; return its time in ms. It raises the same errors as `profile`."""

    def check(self, variant: Variant) -> str:
        """Compare the network's outputs with the expected ones; return what is wrong, empty if nothing is."""


@dataclass(frozen=True)
class NetworkJudgement:
    """The outcome of timing the finalists in the network.

    Attributes
    ----------
    winners
        Workload -> index of the point that won; 0 is the default.
    task_ms
        Workload -> times in ms of all its calls in the network, one for each round: of the winner, and of the
        default.
    before_ms, after_ms
        Times of the network without tuning and with the winners; equal if no candidate won.
    gain
        Gain of the network with the winners, even if they are not used; None if no candidate won.
    reason
        Why the defaults are kept although some candidates won; empty if the winners are used.
    """

    winners: Mapping[str, int]
    task_ms: Mapping[str, tuple[list[float], list[float]]]
    before_ms: float
    after_ms: float
    gain: Gain | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"the defaults stay: {self.reason}"
        if self.gain is None:
            return "the defaults stay: nothing beats them in the network by more than noise"
        return f"{self.gain}, {shown_ms(self.before_ms)} -> {shown_ms(self.after_ms)}"

    def to_json(self) -> dict[str, object]:
        """Return the values that `toolchain tune --json` prints."""
        brought = self.gain
        return {
            "before_ms": self.before_ms,
            "after_ms": self.after_ms,
            "gain": brought.share if brought else None,
            "uncertainty": brought.uncertainty if brought else None,
            "kept": [workload for workload, place in self.winners.items() if place],
            "reason": self.reason,
        }


def judge(
    candidates: Mapping[str, Sequence[Any]],
    bench: NetworkBench[Variant],
    allowed: Allowance,
    notice: Callable[[str], None],
    step: Callable[[str], None],
) -> NetworkJudgement:
    """Time the candidates in the network and return the winners.

    Parameters
    ----------
    candidates
        Workload -> points to choose from, the default first.
    allowed
        No round begins after this limit, except the least number of rounds.
    notice
        Called with news for the user.
    step
        Called with the name of the next step.

    Raises
    ------
    TimeUpError
        The user's time is too short for the least number of rounds.
    LostError, BusyError
        The board went away, or others measured there all the time.
    ToolchainError
        The untuned network cannot be built, or fails.
    """
    networks = max(len(points) for points in candidates.values())
    return _Judge(candidates, bench, networks, JudgingTime(allowed, networks, step), notice).judge()


@dataclass
class _Judge(Generic[Variant]):
    candidates: Mapping[str, Sequence[Any]]
    bench: NetworkBench[Variant]
    networks: int  # number of variants to profile: the untuned one, and one for each index of candidates
    time: JudgingTime
    notice: Callable[[str], None]
    times: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    whole: list[float] = field(default_factory=list)

    def judge(self) -> NetworkJudgement:
        begun = time.monotonic()
        untuned = self._built({}, "the network without tuning")
        build_s = time.monotonic() - begun
        self.time.foresee(build_s, lambda limit_s: self.bench.look(untuned, limit_s))
        self._profile(self._variants(untuned))
        winners = {workload: fastest(times) for workload, times in self.times.items()}
        before = median(self.whole)
        if not any(winners.values()):
            return self._judgement(winners, before, before)
        points = {workload: self.candidates[workload][place] for workload, place in winners.items() if place}
        try:
            tuned = self._built(points, "the network with the winners")
            self.time.begin("comparing its outputs with onnxruntime's")
            reason = self.bench.check(tuned)
            old, new = self._in_turn(untuned, tuned)
        except (TimeUpError, *_OF_THE_BOARD):
            raise
        except ToolchainError as error:
            return self._defaults(before, None, f"the network with the winners does not run: {error.message}")
        brought, before = gain(old, new), median(old)
        if not reason and not brought.sure:
            reason = f"with the winners the network is {brought}, which is within the noise"
        if reason:
            return self._defaults(before, brought, reason)
        return self._judgement(winners, before, median(new), brought)

    def _built(self, points: Mapping[str, Any], what: str) -> Variant:
        self.time.begin(f"building {what}")
        return self.bench.variant(points, lambda text: self.time.begin(f"building {what}: {text}"))

    def _variants(self, untuned: Variant) -> dict[int, Variant]:
        """Build a variant for each index of candidates; tasks with fewer candidates keep their default."""
        variants = {0: untuned}
        for place in range(1, self.networks):
            points = {
                workload: points[place] for workload, points in self.candidates.items() if place < len(points)
            }
            what = f"the network with finalists {place} of {self.networks - 1}"
            try:
                variants[place] = self._built(points, what)
            except TimeUpError:
                raise
            except ToolchainError as error:
                self.notice(f"these candidates are dropped, their network cannot be built: {error.message}")
        return variants

    def _profile(self, variants: dict[int, Variant]) -> None:
        """Profile the variants alternately; the order is reversed in every other round."""
        order = list(variants)
        what = f"{len(order)} builds of the network in turn, one untuned and {len(order) - 1} with finalists"
        rounds = self.time.rounds(_ROUNDS, what, last=False)
        for number in rounds:
            for place in order if number % 2 == 0 else order[::-1]:
                if place not in variants:
                    continue
                self.time.check()
                try:
                    whole, by_task = self.bench.profile(variants[place])
                except ToolchainError as error:
                    if place == 0 or isinstance(error, _OF_THE_BOARD):
                        raise
                    self.notice(f"these candidates are dropped, their network does not run: {error.message}")
                    del variants[place]
                    self._forget(place)
                    continue
                if place == 0:
                    self.whole.append(whole)
                self._note(place, by_task)

    def _note(self, place: int, by_task: Mapping[str, float]) -> None:
        for workload, points in self.candidates.items():
            if place < len(points) and workload in by_task:
                self.times.setdefault(workload, {}).setdefault(place, []).append(by_task[workload])

    def _forget(self, place: int) -> None:
        for times in self.times.values():
            times.pop(place, None)

    def _in_turn(self, untuned: Variant, tuned: Variant) -> tuple[list[float], list[float]]:
        old: list[float] = []
        new: list[float] = []
        pair = [(untuned, old), (tuned, new)]
        rounds = self.time.rounds(_LAST_ROUNDS, "the network with the winners and without them", last=True)
        for number in rounds:
            for variant, times in pair if number % 2 == 0 else pair[::-1]:
                self.time.check()
                times.append(self.bench.time(variant))
        return old, new

    def _defaults(self, before_ms: float, brought: Gain | None, reason: str) -> NetworkJudgement:
        return self._judgement(dict.fromkeys(self.times, 0), before_ms, before_ms, brought, reason)

    def _judgement(
        self,
        winners: Mapping[str, int],
        before_ms: float,
        after_ms: float,
        brought: Gain | None = None,
        reason: str = "",
    ) -> NetworkJudgement:
        task_ms = {
            workload: (self.times[workload][place], self.times[workload][0])
            for workload, place in winners.items()
        }
        return NetworkJudgement(winners, task_ms, before_ms, after_ms, brought, reason)

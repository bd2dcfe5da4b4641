"""The last word on what was found: the whole network, on a board.

A candidate that is measured alone finds its operands in the cache, where the function before it would have
left others. So the network is compiled with one candidate for each task, for all tasks at once, and every
function's time is read within it. What wins there by more than the noise is put together, and that network,
timed in turn with the untuned one, must win too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

from toolchain.errors import ToolchainError
from toolchain.tuning.allowance import Allowance, TimeUpError
from toolchain.tuning.judging.gain import Gain, fastest, gain
from toolchain.tuning.judging.judging_time import JudgingTime

_ROUNDS = 5  # of profiles
_LAST_ROUNDS = 9  # of whole networks: what tuning brings is a few percent, like the noise

Variant = TypeVar("Variant")


class NetworkBench(Protocol[Variant]):
    """Builds a network with certain points, and times it on one board."""

    def variant(self, points: Mapping[str, Any], step: Callable[[str], None]) -> Variant:
        """Return the network with a point for each workload; all others as they are without tuning.

        Parameters
        ----------
        step
            Called with what it is at; may raise, which ends it.

        Raises
        ------
        ToolchainError
            It cannot be built.
        """

    def look(self, variant: Variant, limit_s: float | None) -> float:
        """Return seconds of a first inference, before anything else is timed.

        Parameters
        ----------
        limit_s
            It is given up after this time; None: after one that no sound network needs.

        Raises
        ------
        ToolchainError
            The network does not run, or not in this time.
        """

    def profile(self, variant: Variant) -> tuple[float, Mapping[str, float]]:
        """Return milliseconds of the network, and by workload those of all calls of a task.

        Raises
        ------
        ToolchainError
            The network does not run.
        """

    def time(self, variant: Variant) -> float:
        """Return milliseconds of the network; errors are those of `profile`."""

    def check(self, variant: Variant) -> str:
        """Return what is wrong with the network's outputs; empty: nothing."""


@dataclass(frozen=True)
class Judgement:
    """What the network said.

    Attributes
    ----------
    winners
        Workload -> place of the point that won, 0 for the default.
    task_ms
        Workload -> milliseconds of all its calls in the network, by round; of the winner, and of the default.
    before_ms, after_ms
        Of the network, without tuning and with the winners; the same where none won.
    gain
        What the winners bring, be it taken or not; None where there were none.
    reason
        Why the defaults stay although some candidates won; empty where they do not.
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
        return f"{self.gain}, {self.before_ms:.2f} ms -> {self.after_ms:.2f} ms"

    def to_json(self) -> dict[str, object]:
        """Return what `toolchain tune --json` prints of it."""
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
) -> Judgement:
    """Return what wins in the network.

    Parameters
    ----------
    candidates
        Workload -> points to choose from, the default first.
    allowed
        No round begins after this time, but for the least number of rounds.
    notice
        Called with what a user should know.
    step
        Called with what comes next.

    Raises
    ------
    TimeUpError
        A user gave the time, and it is too short for the least number of rounds.
    ToolchainError
        The untuned network cannot be built, or does not run.
    """
    networks = max(len(points) for points in candidates.values())
    return _Judge(candidates, bench, networks, JudgingTime(allowed, networks, step), notice).judge()


@dataclass
class _Judge(Generic[Variant]):
    candidates: Mapping[str, Sequence[Any]]
    bench: NetworkBench[Variant]
    networks: int  # that are profiled in turn: the untuned one, and one for each place among the candidates
    time: JudgingTime
    notice: Callable[[str], None]
    times: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    whole: list[float] = field(default_factory=list)

    def judge(self) -> Judgement:
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
        except TimeUpError:
            raise
        except ToolchainError as error:
            return self._defaults(before, None, f"the network with the winners does not run: {error.message}")
        brought, before = gain(old, new), median(old)
        if not reason and not brought.sure:
            reason = f"with the winners the network is {brought}, which is no more than noise"
        if reason:
            return self._defaults(before, brought, reason)
        return self._judgement(winners, before, median(new), brought)

    def _built(self, points: Mapping[str, Any], what: str) -> Variant:
        self.time.begin(f"building {what}")
        return self.bench.variant(points, lambda text: self.time.begin(f"building {what}: {text}"))

    def _variants(self, untuned: Variant) -> dict[int, Variant]:
        """Return the network once for each place among the candidates; of a shorter list, the default."""
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
                self.notice(f"a network of candidates cannot be built, and they are out: {error.message}")
        return variants

    def _profile(self, variants: dict[int, Variant]) -> None:
        """Take profiles in turn; who is first in one round is last in the next."""
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
                    if place == 0:
                        raise
                    self.notice(f"a network of candidates does not run, and they are out: {error.message}")
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

    def _defaults(self, before_ms: float, brought: Gain | None, reason: str) -> Judgement:
        return self._judgement(dict.fromkeys(self.times, 0), before_ms, before_ms, brought, reason)

    def _judgement(
        self,
        winners: Mapping[str, int],
        before_ms: float,
        after_ms: float,
        brought: Gain | None = None,
        reason: str = "",
    ) -> Judgement:
        task_ms = {
            workload: (self.times[workload][place], self.times[workload][0])
            for workload, place in winners.items()
        }
        return Judgement(winners, task_ms, before_ms, after_ms, brought, reason)

"""The network decides: what is faster alone and slower there is not taken; and a user's time is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError
from toolchain.measuring.execute import BusyError
from toolchain.tuning import allowance
from toolchain.tuning.allowance import Allowance, TimeUpError
from toolchain.tuning.judging import judge as rules
from toolchain.tuning.judging import judging_time
from toolchain.tuning.judging.judge import judge

ROUNDS = 5
CANDIDATES = {"conv": ["default", "a", "b"], "dense": ["default", "c"], "pool": ["default"]}
NEVER = Allowance(float("inf"))
Points = Mapping[str, Any]


@dataclass
class Clock:
    """Stands for `time`: it goes on when something takes time."""

    now: float = 0.0

    def take(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Told:
    """A network whose times are told, with a little noise.

    Attributes
    ----------
    ms
        Of the candidates; of a default: 10.
    extra_ms
        Of the whole network where it has any candidate: what no task shows, such as layouts to change.
    refuses
        A network with this point cannot be built; `crashes`: cannot be run; `lies`: computes something else.
    inference_s, build_s
        What a network takes of the clock.
    """

    ms: Mapping[str, float]
    extra_ms: float = 0.0
    inference_s: float = 0.0
    build_s: float = 0.0
    refuses: str = ""
    crashes: str = ""
    lies: str = ""
    built: list[Points] = field(default_factory=list)
    calls: int = 0
    checked: list[Points] = field(default_factory=list)
    clock: Clock = field(default_factory=lambda: Clock())
    random: Random = field(default_factory=lambda: Random(1))

    def variant(self, points: Points, step: Callable[[str], None]) -> Points:
        step("compiling 1/3 functions")
        self.clock.take(self.build_s)
        if self.refuses in points.values():
            raise ToolchainError("LLVM has had enough")
        self.built.append(points)
        return points

    def look(self, _variant: Points, limit_s: float | None) -> float:
        if limit_s is not None and 2 * self.inference_s > limit_s:
            self.clock.take(limit_s)
            raise ToolchainError("killed")
        self.clock.take(2 * self.inference_s)
        return self.inference_s

    def profile(self, variant: Points) -> tuple[float, Mapping[str, float]]:
        self.clock.take(0.5 + 5 * self.inference_s)
        if self.crashes in variant.values():
            raise ToolchainError("signal 11")
        self.calls += 1
        noise = self.random.gauss(1, 0.001)
        by_task = {workload: noise * self.ms.get(variant.get(workload, ""), 10.0) for workload in CANDIDATES}
        return sum(by_task.values()) + (self.extra_ms if variant else 0.0), by_task

    def time(self, variant: Points) -> float:
        return self.profile(variant)[0]

    def check(self, variant: Points) -> str:
        self.checked.append(variant)
        return "output 0 is wrong" if self.lies in variant.values() else ""


@pytest.fixture(autouse=True)
def full_judgement(short_judgement: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge as a user's run does: nothing takes long here."""
    del short_judgement
    monkeypatch.setattr(rules, "_ROUNDS", ROUNDS)
    monkeypatch.setattr(rules, "_LAST_ROUNDS", 9)


def said(_text: str) -> None:
    pass


def test_what_wins_in_the_network_is_taken() -> None:
    bench = Told({"a": 12.0, "b": 8.0, "c": 9.999})
    judged = judge(CANDIDATES, bench, NEVER, said, said)
    assert judged.winners == {"conv": 2, "dense": 0, "pool": 0}, "c is better by less than the noise"
    assert (
        judged.gain is not None and judged.gain.sure and judged.gain.share == pytest.approx(2 / 30, rel=0.05)
    )
    assert judged.before_ms == pytest.approx(30, rel=0.01) and judged.after_ms == pytest.approx(28, rel=0.01)
    winner, default = judged.task_ms["conv"]
    assert winner == pytest.approx([8.0] * ROUNDS, rel=0.01) and default == pytest.approx(
        [10.0] * ROUNDS, rel=0.01
    )
    assert bench.checked == [{"conv": "b"}]


def test_one_candidate_for_each_task_is_tried_at_once() -> None:
    bench = Told({})
    judge(CANDIDATES, bench, NEVER, said, said)
    assert bench.built == [{}, {"conv": "a", "dense": "c"}, {"conv": "b"}]


def test_nothing_that_wins_leaves_the_defaults() -> None:
    judged = judge(CANDIDATES, Told({"a": 12.0, "b": 11.0, "c": 10.0}), NEVER, said, said)
    assert set(judged.winners.values()) == {0}
    assert judged.gain is None and judged.reason == "" and judged.before_ms == judged.after_ms


def test_winners_that_make_the_network_slower_are_not_taken() -> None:
    judged = judge(CANDIDATES, Told({"b": 8.0}, extra_ms=3.0), NEVER, said, said)
    assert set(judged.winners.values()) == {0}
    assert "slower, which is within the noise" in judged.reason
    assert judged.gain is not None and judged.gain.share < 0


def test_winners_that_compute_something_else_are_not_taken() -> None:
    judged = judge(CANDIDATES, Told({"b": 8.0}, lies="b"), NEVER, said, said)
    assert set(judged.winners.values()) == {0} and judged.reason == "output 0 is wrong"


@pytest.mark.parametrize("how", ["refuses", "crashes"])
def test_candidates_whose_network_fails_are_out_and_the_others_stay(how: str) -> None:
    told: list[str] = []
    bench = Told({"a": 1.0, "b": 8.0, "c": 1.0}, **{how: "a"})
    judged = judge(CANDIDATES, bench, NEVER, told.append, said)
    assert judged.winners == {"conv": 2, "dense": 0, "pool": 0}
    assert len(told) == 1 and "these candidates are dropped" in told[0]


def test_an_untuned_network_that_does_not_run_is_an_error() -> None:
    class Broken(Told):
        def profile(self, variant: Points) -> tuple[float, Mapping[str, float]]:
            raise ToolchainError(f"signal 11 with {len(variant)} candidates")

    with pytest.raises(ToolchainError, match="signal 11 with 0"):
        judge(CANDIDATES, Broken({}), NEVER, said, said)


@pytest.mark.parametrize("error", [LostError, BusyError])
@pytest.mark.parametrize("calls", [1, 4, 3 * ROUNDS, 3 * ROUNDS + 1])
def test_a_board_that_goes_away_or_is_busy_says_nothing_of_the_candidates(
    calls: int, error: type[ToolchainError]
) -> None:
    class Leaves(Told):
        def profile(self, variant: Points) -> tuple[float, Mapping[str, float]]:
            if self.calls == calls:
                raise error("no route to host")
            return super().profile(variant)

    told: list[str] = []
    with pytest.raises(error):
        judge(CANDIDATES, Leaves({"b": 8.0}), NEVER, told.append, said)
    assert told == []


def test_without_a_users_time_the_least_number_of_rounds_decides() -> None:
    bench = Told({"b": 8.0})
    judged = judge(CANDIDATES, bench, Allowance(time.monotonic() - 1), said, said)
    assert judged.winners["conv"] == 2
    assert bench.calls == 3 * 3 + 2 * 3


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (allowance, judging_time, rules):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def test_where_a_users_time_is_short_there_are_fewer_rounds(clock: Clock) -> None:
    bench = Told({"b": 4.0}, inference_s=1.0, build_s=10.0, clock=clock)
    judged = judge(CANDIDATES, bench, Allowance(103.0, firm=True), said, said)
    assert judged.winners["conv"] == 2
    assert bench.calls == 3 * 2 + 2 * 2
    assert clock.now <= 103


def test_a_network_that_is_too_slow_for_a_users_time_is_not_judged(clock: Clock) -> None:
    bench = Told({"b": 4.0}, inference_s=5.0, build_s=10.0, clock=clock)
    with pytest.raises(
        TimeUpError, match=r"an inference takes 5 s, judging about .* s, and --time leaves 80 s"
    ):
        judge(CANDIDATES, bench, Allowance(100.0, firm=True), said, said)
    assert bench.calls == 0 and clock.now <= 20, "it was clear after one inference"


def test_the_time_that_is_suggested_is_enough(clock: Clock) -> None:
    bench = Told({"b": 4.0}, inference_s=5.0, build_s=10.0, clock=clock)
    with pytest.raises(TimeUpError) as caught:
        judge(CANDIDATES, bench, Allowance(100.0, firm=True), said, said)
    (seconds,) = [int(word.rstrip(",")) for word in caught.value.hint.split() if word.rstrip(",").isdecimal()]
    given = allowance.RunTime(seconds, begun=clock.now)
    search = given.search()
    assert search is not None
    clock.now = search.until
    assert judge(CANDIDATES, bench, given.conclusion(), said, said).winners["conv"] == 2


@pytest.mark.parametrize("slow", [{"inference_s": 1e3}, {"build_s": 1e3}])
def test_one_inference_or_one_network_may_be_too_much(clock: Clock, slow: dict[str, float]) -> None:
    bench = Told({"b": 4.0}, clock=clock, **slow)
    with pytest.raises(TimeUpError, match="too short to build the network and time one inference"):
        judge(CANDIDATES, bench, Allowance(100.0, firm=True), said, said)
    assert bench.calls == 0


def test_a_board_that_gets_slower_ends_the_judgement_at_the_limit(clock: Clock) -> None:
    class Throttled(Told):
        def profile(self, variant: Points) -> tuple[float, Mapping[str, float]]:
            self.clock.take(100.0)
            return super().profile(variant)

    bench = Throttled({"b": 4.0}, inference_s=1.0, clock=clock)
    with pytest.raises(TimeUpError, match="leaves 0 s"):
        judge(CANDIDATES, bench, Allowance(150.0, firm=True), said, said)
    assert bench.calls == 2, "no measurement began after it"


def test_it_says_what_it_is_at() -> None:
    steps: list[str] = []
    judge(CANDIDATES, Told({"b": 8.0}, inference_s=0.25), NEVER, said, steps.append)
    assert steps[0] == "building the network without tuning"
    assert "building the network with finalists 2 of 2: compiling 1/3 functions" in steps
    timing = "timing 3 builds of the network in turn, one untuned and 2 with finalists: "
    assert f"{timing}1/5 rounds at most, 0.25 s an inference" in steps
    assert any("9/9 rounds" in step and "with the winners" in step for step in steps)

"""The network decides: what is faster alone and slower there is not taken."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import pytest

from toolchain.errors import ToolchainError
from toolchain.tasks.space import Point
from toolchain.tuning import judge as rules
from toolchain.tuning.judge import judge

ROUNDS = 5
CANDIDATES = {"conv": ["default", "a", "b"], "dense": ["default", "c"], "pool": ["default"]}
NEVER = float("inf")
Points = Mapping[str, Point]


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
    """

    ms: Mapping[str, float]
    extra_ms: float = 0.0
    refuses: str = ""
    crashes: str = ""
    lies: str = ""
    built: list[Points] = field(default_factory=list)
    calls: int = 0
    checked: list[Points] = field(default_factory=list)
    random: Random = field(default_factory=lambda: Random(1))

    def variant(self, points: Points) -> Points:
        if self.refuses in points.values():
            raise ToolchainError("LLVM has had enough")
        self.built.append(points)
        return points

    def profile(self, variant: Points) -> tuple[float, Mapping[str, float]]:
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
    judged = judge(CANDIDATES, bench, NEVER, said)
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
    judge(CANDIDATES, bench, NEVER, said)
    assert bench.built == [{}, {"conv": "a", "dense": "c"}, {"conv": "b"}]


def test_nothing_that_wins_leaves_the_defaults() -> None:
    judged = judge(CANDIDATES, Told({"a": 12.0, "b": 11.0, "c": 10.0}), NEVER, said)
    assert set(judged.winners.values()) == {0}
    assert judged.gain is None and judged.reason == "" and judged.before_ms == judged.after_ms


def test_winners_that_make_the_network_slower_are_not_taken() -> None:
    judged = judge(CANDIDATES, Told({"b": 8.0}, extra_ms=3.0), NEVER, said)
    assert set(judged.winners.values()) == {0}
    assert "slower, which is no more than noise" in judged.reason
    assert judged.gain is not None and judged.gain.share < 0


def test_winners_that_compute_something_else_are_not_taken() -> None:
    judged = judge(CANDIDATES, Told({"b": 8.0}, lies="b"), NEVER, said)
    assert set(judged.winners.values()) == {0} and judged.reason == "output 0 is wrong"


@pytest.mark.parametrize("how", ["refuses", "crashes"])
def test_candidates_whose_network_fails_are_out_and_the_others_stay(how: str) -> None:
    told: list[str] = []
    bench = Told({"a": 1.0, "b": 8.0, "c": 1.0}, **{how: "a"})
    judged = judge(CANDIDATES, bench, NEVER, told.append)
    assert judged.winners == {"conv": 2, "dense": 0, "pool": 0}
    assert len(told) == 1 and "they are out" in told[0]


def test_an_untuned_network_that_does_not_run_is_an_error() -> None:
    class Broken(Told):
        def profile(self, variant: Points) -> tuple[float, Mapping[str, float]]:
            raise ToolchainError(f"signal 11 with {len(variant)} candidates")

    with pytest.raises(ToolchainError, match="signal 11 with 0"):
        judge(CANDIDATES, Broken({}), NEVER, said)


def test_when_the_time_is_up_the_least_number_of_rounds_decides() -> None:
    bench = Told({"b": 8.0})
    judged = judge(CANDIDATES, bench, time.monotonic() - 1, said)
    assert judged.winners["conv"] == 2
    assert bench.calls == 3 * 3 + 2 * 3

"""What lets a rollout go on, and what ends it."""

from __future__ import annotations

import pytest

from tests.rollouts.made import LAB, outcome
from toolchain.events.rollouts import BoardOutcome, LabNumbers, Rules
from toolchain.rollouts.ssh import judge

BOARDS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("outcomes", "lab", "rules", "passed", "reason"),
    [
        ([outcome()] * 3, LAB, Rules(), True, "1.00 times the lab's"),
        (
            [outcome(latency_us=16_000)] * 3,
            LAB,
            Rules(),
            False,
            "1.60 times the lab's, more than --max-slowdown",
        ),
        ([outcome(latency_us=16_000)] * 3, LAB, Rules(max_slowdown=2), True, "1.60 times"),
        ([outcome(), outcome(), outcome(latency_us=90_000)], LAB, Rules(), True, "1.00 times"),
        ([outcome(), outcome(), outcome("refused")], LAB, Rules(), False, "1 board failed"),
        ([outcome(), outcome(), outcome("refused")], LAB, Rules(max_failures=1), True, "1.00 times"),
        ([outcome("offline", None)] * 3, LAB, Rules(), False, "no board of phase 2 runs the release"),
        ([outcome(), *[outcome("offline", None)] * 2], LAB, Rules(), True, "1.00 times"),
        (
            [outcome(latency_us=900)] * 3,
            LAB.model_copy(update={"latency_us": 90}),
            Rules(),
            True,
            "10.00 times",
        ),
        (
            [outcome(latency_us=900)] * 3,
            LAB.model_copy(update={"latency_us": 90}),
            Rules(slack_us=800),
            False,
            "10.00 times the lab's, more than --max-slowdown",
        ),
        (
            [outcome(latency_us=2000)] * 3,
            LAB.model_copy(update={"latency_us": 900}),
            Rules(),
            False,
            "2.22 times the lab's, more than --max-slowdown",
        ),
        ([outcome()] * 3, None, Rules(), True, "no latency of the lab"),
        ([outcome("unchanged", None)] * 3, LAB, Rules(), True, "3 boards run it"),
    ],
)
def test_a_phase_is_judged(
    outcomes: list[BoardOutcome], lab: LabNumbers | None, rules: Rules, passed: bool, reason: str
) -> None:
    judged = judge(2, BOARDS, dict(zip(BOARDS, outcomes, strict=True)), lab, rules)
    assert judged.passed == passed and reason in judged.reason, judged.reason


def test_failures_of_earlier_phases_count() -> None:
    outcomes = {"before": outcome("rolled-back"), **dict.fromkeys(BOARDS, outcome())}
    assert not judge(2, BOARDS, outcomes, LAB, Rules()).passed

"""Judges a phase: whether the next one may begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from toolchain.quantities import counted
from toolchain.rollouts.events import GateJudged, LabNumbers, Rules
from toolchain.rollouts.outcome import FAILURES, WORKS, Outcome


def judge(
    phase: int, boards: Sequence[str], outcomes: Mapping[str, Outcome], lab: LabNumbers | None, rules: Rules
) -> GateJudged:
    """Judge phase number `phase` by the outcomes of its boards, and by all failures before.

    The rollout ends when more boards failed than the rules allow, when no board of the phase runs the
    release, or when the boards' median latency exceeds the lab's by more than the rules allow. Errors of the
    outputs are judged by each board, against the tolerance that was signed.

    A difference of up to `rules.slack_us` is none. A self-test has a few runs in a process that has only just
    begun, the lab's bench has thousands. By `benchmarks/field.py`, 100 self-tests of a network of 10 us took
    up to 60 us on a PC, whether or not other programs kept its cores busy; a millisecond lets boards be 16
    times slower, and changes nothing for networks of more than 2 ms at the usual `--max-slowdown`.
    """
    of_phase = [outcomes[name] for name in boards]
    tests = [outcome.test for outcome in of_phase if outcome.test]
    latency = round(median(test.latency_us for test in tests)) if tests else None
    error = max((test.error_ppb for test in tests if test.error_ppb is not None), default=None)
    failed = sum(outcome.state in FAILURES for outcome in outcomes.values())
    working = sum(outcome.state in WORKS for outcome in of_phase)
    reason, passed = _reason(phase, working, failed, latency, lab, rules)
    return GateJudged(phase=phase, passed=passed, reason=reason, latency_us=latency, error_ppb=error)


def _reason(
    phase: int, working: int, failed: int, latency: int | None, lab: LabNumbers | None, rules: Rules
) -> tuple[str, bool]:
    if failed > rules.max_failures:
        return f"{counted(failed, 'board')} failed, more than --max-failures {rules.max_failures}", False
    if not working:
        return f"no board of phase {phase} runs the release", False
    if latency is None or lab is None or lab.latency_us is None:
        runs = counted(working, "board runs", "boards run")
        return f"{runs} it; there is no latency of the lab to compare with", True
    ratio = latency / lab.latency_us
    told = f"the field's median latency is {latency / 1e3:.4g} ms, {ratio:.2f} times the lab's"
    if ratio > rules.max_slowdown and latency - lab.latency_us > rules.slack_us:
        return f"{told}, more than --max-slowdown {rules.max_slowdown:g}", False
    return told, True

"""onnx's own tests of operators and its converted PyTorch networks: passed, or refused; never wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.onnx_nodes.cases import Case, network_cases, node_cases
from tests.e2e.onnx_nodes.judge import BROKEN, OUTSIDE, PASSED, Verdict, judged

ENOUGH = 0.75
"""Of the cases that are not outside, those that must pass."""

EVERY = 20
"""The quick selection: each twentieth case."""


def assert_sound(verdicts: list[Verdict]) -> None:
    counts = Counter(verdict.verdict for verdict in verdicts)
    print(dict(counts))
    assert not [verdict for verdict in verdicts if verdict.verdict in BROKEN]
    assert all(verdict.reason for verdict in verdicts if verdict.verdict != PASSED)
    assert counts[PASSED] >= ENOUGH * (len(verdicts) - counts[OUTSIDE])


def all_cases() -> list[Case]:
    return [*node_cases(), *network_cases()]


@pytest.mark.slow
def test_each_twentieth_case() -> None:
    inside = [case for case in all_cases() if not case.outside]
    assert_sound(list(judged(inside[::EVERY])))


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_all_cases() -> None:
    assert_sound(list(judged(all_cases())))


def test_a_wrong_number_is_found() -> None:
    from tests.e2e.onnx_nodes.judge import difference

    case = next(case for case in network_cases() if not case.outside)
    assert not difference(case, case.outputs)
    assert difference(case, [output + 1 for output in case.outputs])
    assert difference(case, [output.astype("float64") for output in case.outputs])

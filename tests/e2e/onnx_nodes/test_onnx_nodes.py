"""onnx's own tests of operators and its converted PyTorch networks: passed, or refused; never wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest

from tests.e2e.onnx_nodes.cases import Case, network_cases, node_cases
from tests.e2e.onnx_nodes.judge import BROKEN, OUTSIDE, PASSED, REFUSED, Verdict, judged
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import build
from toolchain.errors import UsageError
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

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


@pytest.mark.slow
def test_what_is_counted_as_passed_is_what_build_accepts(tmp_path: Path) -> None:
    """Of these onnxruntime computes two: the counts follow `build`, which wants its outputs."""
    names = {
        "test_bitshift_left_uint8",
        "test_bitshift_left_int8",
        "test_compress_0",
        "test_compress_bfloat16",
    }
    cases = [case for case in node_cases() if case.name in names]
    verdicts = {verdict.case: verdict.verdict for verdict in judged(cases)}
    built: dict[str, object] = {}
    for case in cases:
        path = tmp_path / "network.onnx"
        onnx.save(case.model, path)
        try:
            built[case.name] = build(
                load_model(str(path), ModelOptions()), find_target("local"), None, tmp_path
            )
        except UsageError:
            built[case.name] = None
    assert {name: verdict == PASSED for name, verdict in verdicts.items()} == {
        name: result is not None for name, result in built.items()
    }
    assert sorted(verdicts.values()) == [PASSED, PASSED, REFUSED, REFUSED]


def test_a_wrong_number_is_found() -> None:
    from tests.e2e.onnx_nodes.judge import difference

    case = next(case for case in network_cases() if not case.outside)
    assert not difference(case, case.outputs)
    assert difference(case, [output + 1 for output in case.outputs])
    assert difference(case, [output.astype("float64") for output in case.outputs])

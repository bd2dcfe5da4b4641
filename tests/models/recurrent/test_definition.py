"""LSTM, GRU and RNN as they are imported: the numbers onnxruntime's, what cannot be compiled refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.backend.test.case import node as onnx_cases
from onnx.backend.test.case.node import gru, lstm, rnn
from onnx.backend.test.case.test_case import TestCase
from onnx.compose import add_prefix

from tests.backends.packed.computed import MACHINES, computed
from tests.backends.packed.computed import loaded as loaded_here
from tests.models.recurrent.cases import GATES, Case, table, together
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.errors import UsageError
from toolchain.models.inspect import count_macs


@pytest.fixture
def standard(monkeypatch: pytest.MonkeyPatch) -> list[TestCase]:
    """Return ONNX's own cases, without those of all other operators."""
    found: list[TestCase] = []
    monkeypatch.setattr(onnx_cases, "_NodeTestCases", found)
    monkeypatch.setattr(onnx_cases, "_existing_names", {})
    for cell in (lstm.LSTM, gru.GRU, rnn.RNN):
        for name in dir(cell):
            if name.startswith("export"):
                getattr(cell, name)()
    return found


@pytest.mark.full
def test_the_cases_of_the_standard(standard: list[TestCase]) -> None:
    """Their outputs are numpy's; W, R and B are inputs, which no exporter writes."""
    merged = onnx.helper.make_model(
        onnx.helper.make_graph([], "standard", [], []),
        ir_version=10,
        opset_imports=[onnx.helper.make_opsetid("", 22)],
    )
    cases = {f"{case.name}/": case for case in standard}
    assert len(cases) == 18
    inputs: dict[str, np.ndarray] = {}
    expected: dict[str, np.ndarray] = {}
    for name, case in cases.items():
        graph = add_prefix(case.model, name).graph
        merged.graph.MergeFrom(graph)
        given, wanted = case.data_sets[0]
        inputs |= zip((value.name for value in graph.input), given, strict=True)
        expected |= zip((value.name for value in graph.output), wanted, strict=True)
    merged.graph.name = "standard"
    found = computed(loaded_here(merged), inputs, MACHINES[0])
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_the_definition_computes_each_option(tmp_path: Path) -> None:
    assert_same(loaded(together(table()[::14]), tmp_path))


@pytest.mark.slow
@pytest.mark.full
def test_the_definition_computes_every_cell_with_every_option(tmp_path: Path) -> None:
    assert_same(loaded(together(table()), tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_sequence_without_steps_ends_with_states_of_0(direction: str, tmp_path: Path) -> None:
    """Whatever states it began with: onnxruntime clears the row."""
    assert_same(loaded(together([Case(cell, direction, lengths=(0, 3)) for cell in GATES]), tmp_path))


def test_multiplications_are_counted(tmp_path: Path) -> None:
    case = Case("GRU", "bidirectional", steps=7, batch=2, size=3, hidden=5)
    assert count_macs(loaded(together([case]), tmp_path).onnx) == 7 * 2 * 2 * 3 * 5 * (3 + 5)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case("RNN", attributes={"activations": ["Swish"]}), "'Swish'"),
        (Case("LSTM", attributes={"activations": ["Tanh"]}), "1 activation for"),
        (Case("GRU", attributes={"hidden_size": 6}), "hidden_size"),
    ],
)
def test_refuses_unsupported_options_by_name(case: Case, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"n0_node.*" + words):
        loaded(together([case]), tmp_path)

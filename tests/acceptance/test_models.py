"""Predictions of the models of devices for code that is really made; profiles are made up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.testbeds.mali.fixed_model import FixedModel
from toolchain.acceptance import predictions
from toolchain.acceptance.choices import NetworkChoice
from toolchain.acceptance.context import AcceptContext, NetworkBuilt
from toolchain.acceptance.found import PredictFound
from toolchain.acceptance.predictions import predict
from toolchain.acceptance.timing import TimeLeft
from toolchain.boards.board import Board, class_alone
from toolchain.boards.inventory.lookup import find_board
from toolchain.records.store import RecordStore

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as opened:
        yield opened


def context_of(board: Board, folder: Path, store: RecordStore, installed: Any = None) -> AcceptContext:
    return AcceptContext(
        board, folder, store, TimeLeft(60.0), print, lambda _event: None, frozenset(), {}, installed
    )


def test_the_mali_model_beside_a_profile(
    tmp_path: Path, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.measuring.small_network import network

    def profile(_context: AcceptContext, built: NetworkBuilt, _kind: str) -> Any:
        functions = [name for task in built.bundle.manifest.tasks for name in task.functions]
        operators = [{"name": name, "ms": 0.5} for name in (*functions, "pack")]
        return SimpleNamespace(threads=2, operators=operators)

    monkeypatch.setattr("toolchain.testbeds.mali.model.MaliModel", FixedModel)
    monkeypatch.setattr(predictions, "_profile", profile)
    answer = SimpleNamespace(kind="opencl", names=("Mali-T860",), details=(SimpleNamespace(type="gpu"),))
    installed = SimpleNamespace(facts=SimpleNamespace(devices=(answer,)))
    context = context_of(class_alone("rk3399"), tmp_path, store, installed)
    end = predict(context, NetworkChoice(str(network(tmp_path / "small.onnx"))), "opencl")
    assert end.result == "passed" and end.reason == "" and isinstance(end.found, PredictFound)
    (row,) = end.found.predictions
    assert end.found.real and row.model == "mali-model" and row.functions
    assert all(each.predicted_ms in (0.25, 0.5, 0.75) for each in row.functions)
    assert row.measured_ms == pytest.approx(0.5 * len(row.functions)) and row.ratio
    assert row.share is not None and row.share < 1


@pytest.mark.usefixtures("state")
def test_the_cycles_of_a_vta(tmp_path: Path, store: RecordStore) -> None:
    context = context_of(find_board("local"), tmp_path, store)
    end = predict(context, NetworkChoice("zoo:resnet-18", "int8"), "vta")
    assert end.result == "passed" and isinstance(end.found, PredictFound)
    (row,) = end.found.predictions
    assert row.model.startswith("vta cycles") and row.measured_ms is None and not end.found.real
    assert row.predicted_ms == pytest.approx(78.2, rel=0.01)  # docs/benchmarks-vta.md

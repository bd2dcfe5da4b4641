"""A small model, two emulated boards, and a store of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.building.network import written
from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.records.sqlite import FILE_NAME
from toolchain.records.store import RecordStore
from toolchain.rpc import lab
from toolchain.tuning.boards import speed
from toolchain.tuning.judging import judge, network_bench


@pytest.fixture(autouse=True)
def short_judgement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the network judge in seconds: what it says of times is no matter of these tests."""
    monkeypatch.setattr(judge, "_ROUNDS", 2)
    monkeypatch.setattr(judge, "_LAST_ROUNDS", 2)
    monkeypatch.setattr(network_bench, "_SAMPLE_S", 0.02)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return load_model(str(written(tmp_path)), ModelOptions())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / FILE_NAME) as store:
        yield store


@pytest.fixture
def boards(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Board]]:
    """Yield two emulated boards; neither is dropped because it is slower: both are this host."""
    assert not state.exists()
    monkeypatch.setattr(speed, "_FAR", 1000.0)
    yield [emulated.start("x86_64", kind="process", name=name) for name in ("a", "b")]
    assert lab.status() is None

"""A small model, and a store of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.building.network import written
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.records.sqlite.file import FILE_NAME
from toolchain.records.store import RecordStore
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

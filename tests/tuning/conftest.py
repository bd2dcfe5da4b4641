"""A small model, and a store of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.building.network import written
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.records.store import FILE_NAME, RecordStore


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return load_model(str(written(tmp_path)), ModelOptions())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / FILE_NAME) as store:
        yield store

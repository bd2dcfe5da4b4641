"""The network, loaded and built once; and an empty store of records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolchain.building.build import BuildResult
    from toolchain.models.load import Model
    from toolchain.records.store import RecordStore


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Return the network of `network.py`."""
    from tests.building.network import written
    from toolchain.models.load import load_model
    from toolchain.models.options import ModelOptions

    return load_model(str(written(tmp_path_factory.mktemp("network"))), ModelOptions())


@pytest.fixture(scope="session")
def built(model: Model, tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    """Return what is built for this host without records."""
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.building.build import build

    return build(model, find_target("local"), None, tmp_path_factory.mktemp("built"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    from toolchain.records.store import RecordStore

    with RecordStore(tmp_path / "records.sqlite") as opened:
        yield opened

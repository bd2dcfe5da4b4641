"""A folder that was exported and measured on this host, once; tests that change it get a copy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.building.network import written
from tests.runtime.offline_folder import copied
from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import local_board
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.records.sqlite import SqliteFile
from toolchain.records.store import RecordStore
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.events import Event
from toolchain.tuning.offline.export import Exported, export
from toolchain.tuning.offline.importing import import_results
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.result import TuneResult

HOW = TuneOptions(trials=3, heaviest=2, repeat=2, min_repeat_ms=1, builders="1")
MIB = 1 << 20


@dataclass
class Offline:
    """A model, and what is exported of it and imported for it."""

    model: Model
    how: TuneOptions = HOW

    def export(self, folder: Path, most: int = 48 * MIB, store: RecordStore | None = None) -> Exported:
        with store or RecordStore(SqliteFile(None)) as records:
            return export(*self._for(), records, self.how, folder, most, lambda _event: None)

    def load(
        self,
        folder: Path,
        store: RecordStore,
        how: TuneOptions = HOW,
        listen: Callable[[Event], None] = lambda _event: None,
    ) -> TuneResult:
        return import_results(*self._for(), store, how, folder, listen)

    def _for(self) -> tuple[Model, Any, Any]:
        board = local_board()
        return self.model, backend_for(board.profile, CodeOptions()), board


def measured(folder: Path, *options: str) -> Any:
    """Measure a folder with the program in it, as on a board without a network; return what it says."""
    command = [
        str(folder / "edge-rt"),
        "measure",
        str(folder),
        "--state",
        str(folder.parent / "rt"),
        *options,
    ]
    done = subprocess.run(command, capture_output=True, timeout=120)
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Offline:
    return Offline(load_model(str(written(tmp_path_factory.mktemp("model"))), ModelOptions()))


@pytest.fixture(scope="session")
def exported(offline: Offline, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Exported]:
    folder = tmp_path_factory.mktemp("offline") / "folder"
    return folder, offline.export(folder)


@pytest.fixture(scope="session")
def done(exported: tuple[Path, Exported], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copied(exported[0], tmp_path_factory.mktemp("measured") / "folder")
    assert measured(folder)["failed"] == 0
    return folder


@pytest.fixture
def folder(done: Path, tmp_path: Path) -> Path:
    """Return a measured folder of the test's own."""
    return copied(done, tmp_path / "folder")

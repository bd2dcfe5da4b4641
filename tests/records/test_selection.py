from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.records.samples import KEY, PROVENANCE, put
from toolchain.records.database import Selection
from toolchain.records.store import RecordStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as store:
        yield store


def test_selection_criteria(store: RecordStore) -> None:
    record = put(store, 1.0)
    assert record in Selection()
    assert record in Selection(tasks=("ffff", "00ff"), classes=("x86_64",), kinds=("metaschedule",))
    for other in (Selection(tasks=("0ff",)), Selection(classes=("x86",)), Selection(kinds=("cpu",))):
        assert record not in other
    emulated = put(store, 1.0, key=replace(KEY, board_class="x86_64+emulated"), provenance=PROVENANCE)
    assert emulated not in Selection(classes=("x86_64",))

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.records.samples import KEY, KINDS, PROVENANCE, put
from toolchain.errors import ToolchainError
from toolchain.records.distill import BuildVariant, Distilled, distill, used_records
from toolchain.records.store import RecordStore, anything

BUILDS = [BuildVariant(KINDS, anything)]
OTHER = replace(KEY, threads=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as store:
        for number in range(1, 101):
            put(store, float(number), payload="x" * 5000)
        put(store, 50.0, key=OTHER)
        put(store, 0.0, run_ms=(), failure="build", digest="failed")
        yield store


def size(store: RecordStore) -> int:
    return sum(file.stat().st_size for file in Path(store.name).parent.iterdir())  # with SQLite's journal


def test_distill_keeps_the_best_and_shrinks_the_file(store: RecordStore) -> None:
    store.add_function(KEY.workload, "of no record", "unused")
    before = size(store)
    bests = store.best(KEY, KINDS), store.best(OTHER, KINDS)
    expected = Distilled(kept=2, removed=99, removed_failures=1)
    assert distill(store, BUILDS, 1, failures=False, dry_run=True) == expected
    assert len(store.all()) == 102 and size(store) == before
    assert distill(store, BUILDS, 1, failures=False) == expected
    assert tuple(store.all()) == bests
    assert [function.name for function in store.functions()] == ["matmul"]
    assert size(store) < before / 4
    assert distill(store, BUILDS, 1, failures=False) == Distilled(2, 0, 0)


def test_distill_can_keep_several_and_failures(store: RecordStore) -> None:
    assert distill(store, BUILDS, 10, failures=True) == Distilled(12, 90, 0)
    assert [record.failure for record in store.all() if record.failure] == ["build"]
    assert "failed" in store.measured(KEY)


def test_distill_removes_impossible_times(store: RecordStore) -> None:
    with sqlite3.connect(store.name) as db:
        db.execute("UPDATE records SET best_ms=-1, run_ms='[-1.0]' WHERE best_ms=1.0")
    db.close()
    assert distill(store, BUILDS, 1, failures=False).kept == 2
    with sqlite3.connect(store.name) as db:
        assert db.execute("SELECT count(*) FROM records").fetchone() == (2,)
    db.close()


def test_running_tuning_survives_distill(store: RecordStore) -> None:
    with RecordStore(Path(store.name)) as running:
        function = running.add_function(KEY.workload, "new", "a new definition")
        distill(store, BUILDS, 1, failures=False)
        record = put(store, 7.0)
        running.add(replace(record, function=function, digest="new"))
        assert running.definition(function) == "a new definition"
    assert len(store.all()) == 4


def test_distill_keeps_records_stored_meanwhile(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def used_records_while_others_store(*arguments: Any) -> Any:
        best = used_records(*arguments)
        with RecordStore(Path(store.name)) as other:
            put(other, 0.1, digest="fastest")
            put(other, 200.0, digest="slowest")
        return best

    monkeypatch.setattr("toolchain.records.distill.used_records", used_records_while_others_store)
    assert distill(store, BUILDS, 1, failures=False) == Distilled(2, 99, 1)
    assert {record.digest for record in store.all()} >= {"fastest", "slowest"} and len(store.all()) == 4


def test_file_that_cannot_shrink_is_reported(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise ToolchainError("the disk is full", "free some space")

    monkeypatch.setattr(store, "compact", full)
    with pytest.raises(
        ToolchainError, match=r"100 records were removed, but .* as large as before: the disk"
    ):
        distill(store, BUILDS, 1, failures=False)
    assert len(store.all()) == 2


def test_distill_prefers_measured_records(store: RecordStore) -> None:
    put(store, 0.5, provenance=replace(PROVENANCE, modelled=True))
    distill(store, BUILDS, 1, failures=False)
    assert not store.best(KEY, KINDS).provenance.modelled


def test_unreadable_failures_are_not_counted_as_removed(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "own.sqlite") as store:
        put(store, 1.0)
        put(store, 0.0, run_ms=(), failure="build", digest="failed")
        with sqlite3.connect(store.name) as file:
            file.execute("UPDATE records SET failure = 'of another program' WHERE digest = 'failed'")
        assert distill(store, BUILDS, 1, failures=False) == Distilled(kept=2, removed=0, removed_failures=0)

"""A store that grows: what commands ask of it is answered by its indexes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tests.records.plans import Watched, ask_everything
from tests.records.samples import KEY, PROVENANCE, put
from toolchain.backends.table import BACKENDS
from toolchain.records.database import INDEXES, INSERT_NEW, Selection
from toolchain.records.distill import used_records
from toolchain.records.exchange import values_if_new
from toolchain.records.sqlite import SqliteFile
from toolchain.records.store import RecordStore

BUILDS = [build for offer in BACKENDS for build in offer.builds]
WINOGRAD, DIRECT = '{"algorithm":"winograd"}', '{"algorithm":"direct"}'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as store:
        yield store


def fill(store: RecordStore, count: int = 70) -> None:
    for number in range(count):
        payload = DIRECT if number == count - 1 else WINOGRAD
        created = f"2026-01-01T00:00:00.{number:03}+00:00"
        put(store, 1.0 + number, kind="cpu", payload=payload, created=created)
    put(store, 0.5, kind="cpu", run_ms=(), failure="wrong result", digest="never ran")


def test_queries_read_no_unneeded_records(tmp_path: Path) -> None:
    watched = Watched(SqliteFile(tmp_path / "records.sqlite"), "EXPLAIN QUERY PLAN")
    with RecordStore(watched) as store:
        fill(store)
        ask_everything(store)
    steps = [step for plan in watched.plans for step in plan.splitlines()]
    assert not [step for step in steps if step in ("SCAN records", "SCAN next", "SCAN found")]
    first, *_others = watched.plans
    assert (
        "SEARCH records USING COVERING INDEX by_rank" in first
        and "SEARCH records USING INDEX by_rank" in first
    )
    assert "SEARCH refuted USING INDEX refutations (digest=? AND workload=?" in first
    assert first.endswith("USE TEMP B-TREE FOR ORDER BY") and first.count("TEMP B-TREE") == 1, (
        "groups are sorted, and no records: the index is in the order of preference"
    )
    assert any(step == "SCAN records USING INDEX by_created" for step in steps)
    assert any(step.startswith("SEARCH records USING INDEX by_run (run=?)") for step in steps)


def test_duplicate_check_uses_an_index(tmp_path: Path) -> None:
    """An import asks for each of its records, while every other process waits."""
    path = tmp_path / "records.sqlite"
    with RecordStore(path) as store:
        record = put(store, 1.0)
    with sqlite3.connect(path) as file:
        plan = file.execute(f"EXPLAIN QUERY PLAN {INSERT_NEW}", values_if_new(record)).fetchall()
    file.close()
    assert any("USING INDEX by_measurement (digest=? AND workload=?" in str(row[-1]) for row in plan)


def test_best_is_found_behind_many_unusable_records(store: RecordStore) -> None:
    fill(store)
    chosen = {(entry.record.best_ms, entry.options) for entry in used_records(store, BUILDS)}
    assert chosen == {(1.0, ("",)), (70.0, ("--winograd off",))}


def test_best_across_groups_follow_the_rank(store: RecordStore) -> None:
    """What a run left out makes a group of its own, and so does each kind; a build takes from several."""
    off = replace(PROVENANCE, excluded="winograd")
    confirmed = put(
        store, 5.0, kind="default", payload="", confirmed=True, created="2026-01-01T00:00:00.000+00:00"
    )
    put(store, 4.0, kind="metaschedule", confirmed=True, created="2025-12-31T00:00:00.000+00:00")
    put(store, 1.0, kind="metaschedule")
    every = put(store, 3.0, kind="cpu", payload=DIRECT)
    without = put(store, 2.0, kind="cpu", payload=DIRECT, provenance=off)
    put(store, 1.0, kind="cpu", payload=DIRECT, provenance=replace(off, modelled=True))
    other = put(store, 9.0, key=replace(KEY, threads=1))
    chosen = {entry.record.digest: entry.options for entry in used_records(store, BUILDS)}
    assert chosen == {
        every.digest: ("",),
        without.digest: ("--winograd off",),
        confirmed.digest: ("--layout NCHW|NHWC",),
        other.digest: ("--layout NCHW|NHWC",),
    }
    for build in BUILDS:
        best = store.best(KEY, build.kinds, build.usable)
        assert best is None or build.options in chosen[best.digest]


def test_newest_reads_pages_lazily(store: RecordStore) -> None:
    fill(store, 200)
    late = put(
        store, 500.0, created="2025-01-01T00:00:00.000+00:00"
    )  # it was imported: it is older than its number
    watched = Watched(store._database, "EXPLAIN QUERY PLAN")
    store._database = watched
    first = list(islice(store.newest(), 10))
    assert len(watched.plans) == 1
    assert first[0].failure and [record.best_ms for record in first[1:3]] == [200.0, 199.0]
    everything = list(store.newest())
    assert len(everything) == store.count() == 202 and everything[-1] == late
    assert everything == sorted(everything, key=lambda record: record.created, reverse=True)


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (Selection(), 3),
        (Selection(tasks=("00ff",)), 2),
        (Selection(tasks=("00ff", "abc")), 3),
        (Selection(tasks=("%",)), 0),
        (Selection(boards=("desk",)), 1),
        (Selection(boards=("desk", "local"), kinds=("metaschedule",)), 3),
        (Selection(classes=("rk3399",)), 0),
        (Selection(since="2026-02-01T00:00:00.000+00:00"), 1),
    ],
)
def test_selection_in_sql_matches_python(store: RecordStore, selection: Selection, count: int) -> None:
    put(store, 1.0, created="2026-01-01T00:00:00.000+00:00")
    put(store, 2.0, created="2026-01-02T00:00:00.000+00:00", provenance=replace(PROVENANCE, board="desk"))
    key = replace(KEY, workload="abcd" * 4)
    put(
        store,
        3.0,
        key,
        function=store.add_function(key.workload, "dense", "x"),
        created="2026-02-02T00:00:00.000+00:00",
    )
    selected = list(store.newest(selection))
    assert len(selected) == store.count(selection) == count
    assert set(selected) == {record for record in store.all() if record in selection}


def test_older_store_gets_indexes_and_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    with RecordStore(path) as store:
        fill(store)
        before = store.all()
    db = sqlite3.connect(path)
    for name in INDEXES:
        db.execute(f"DROP INDEX {name}")
    db.execute("CREATE INDEX by_key ON records (workload, triple)")
    db.commit()
    db.close()
    messages: list[str] = []
    with RecordStore(SqliteFile(path, read_only=True)) as store:
        assert [record.best_ms for record in islice(store.newest(), 3)] == [None, 70.0, 69.0], "but slower"
    with RecordStore(SqliteFile(path, notify=messages.append)) as store:
        assert store.all() == before and messages == [], "it is small: nobody waits"
    db = sqlite3.connect(path)
    indexes = {
        name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE INDEX%'")
    }
    assert indexes == set(INDEXES)
    assert db.execute("PRAGMA user_version").fetchone() == (2,), "an older toolchain can use it"
    db.close()


def test_indexing_a_large_store_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolchain.records import sqlite as schema

    with RecordStore(tmp_path / "records.sqlite") as store:
        fill(store, 3)
        store._database.run("DROP INDEX by_run")
    monkeypatch.setattr(schema, "_LARGE", 100)
    messages: list[str] = []
    SqliteFile(tmp_path / "records.sqlite", notify=messages.append).close()
    assert len(messages) == 1 and "creating indexes in" in messages[0] and "may take a minute" in messages[0]
    SqliteFile(tmp_path / "records.sqlite", notify=messages.append).close()
    assert len(messages) == 1

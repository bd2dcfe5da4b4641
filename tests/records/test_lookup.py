from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.samples import KEY, KINDS, PROVENANCE, put
from toolchain.records.exchange import write_records
from toolchain.records.lookup import lookup
from toolchain.records.record import Record, RecordKey, level_rank
from toolchain.records.store import RecordStore

OTHER_CPU = replace(KEY, cpu="znver4")
OTHER_THREADS = replace(KEY, threads=1)
LOWER = replace(KEY, level="x86-64-v2", cpu="x86-64-v2")
LOWEST = replace(KEY, level="x86-64", cpu="x86-64")
HIGHER = replace(KEY, level="x86-64-v4", cpu="x86-64-v4")
LEVELS = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "neon", "neon+dotprod", "neon+dotprod+fp16"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as store:
        yield store


def test_empty_store_has_no_hit(store: RecordStore) -> None:
    assert lookup(store, KEY, KINDS) is None


def test_an_exact_record_wins_over_faster_ones(store: RecordStore) -> None:
    exact = put(store, 9.0)
    for key in (OTHER_CPU, OTHER_THREADS, LOWER):
        put(store, 1.0, key=key)
    hit = lookup(store, KEY, KINDS)
    assert (hit.record, hit.how, hit.shipped, hit.definition) == (exact, "exact", False, "{}")


def test_second_choice_is_another_cpu_or_thread_count(store: RecordStore) -> None:
    near = put(store, 9.0, key=OTHER_THREADS)  # the same cpu is nearer than the same threads
    put(store, 8.0, key=OTHER_CPU)
    put(store, 1.0, key=LOWER)
    put(store, 1.0, key=replace(OTHER_CPU, board_class="rack"))
    hit = lookup(store, KEY, KINDS)
    assert (hit.record, hit.how) == (near, "other-cpu-or-threads")


def test_record_removed_meanwhile_is_skipped(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another process, between two questions of this one."""
    near = put(store, 9.0, key=OTHER_THREADS, function=store.add_function(KEY.workload, "matmul", "other"))
    exact = put(store, 1.0)
    definition = store.definition

    def asked(identity: str) -> str:
        if identity == exact.function:
            with sqlite3.connect(Path(store.name)) as db:
                db.execute("DELETE FROM records WHERE function=?", (identity,))
                db.execute("DELETE FROM functions WHERE id=?", (identity,))
        return definition(identity)

    monkeypatch.setattr(store, "definition", asked)
    hit = lookup(store, KEY, KINDS)
    assert hit is not None and (hit.record, hit.definition) == (near, "other")


def test_third_choice_is_the_nearest_lower_level(store: RecordStore) -> None:
    put(store, 1.0, key=LOWEST)
    near = put(store, 9.0, key=LOWER)
    put(store, 0.1, key=HIGHER)
    hit = lookup(store, KEY, KINDS)
    assert (hit.record, hit.how) == (near, "lower-level")


@pytest.mark.parametrize(
    "key",
    [
        HIGHER,
        replace(KEY, triple="x86_64-unknown-linux-musl"),
        replace(KEY, workload="1" * 16),
        replace(KEY, board_class="x86_64+emulated"),
        replace(KEY, board_class="rack"),
        replace(KEY, device="opencl:Mali-T860"),
    ],
)
def test_records_that_do_not_apply(store: RecordStore, key: RecordKey) -> None:
    put(store, 1.0, key=key)
    assert lookup(store, KEY, KINDS) is None


def test_emulated_and_real_boards_share_no_records(store: RecordStore) -> None:
    emulated = replace(KEY, board_class="x86_64+emulated")
    put(store, 1.0)
    put(store, 1.0, key=LOWER)
    assert lookup(store, emulated, KINDS) is None
    record = put(store, 5.0, key=replace(emulated, threads=1))
    assert lookup(store, emulated, KINDS).record == record


def test_devices_share_no_records(store: RecordStore) -> None:
    mali, jetson = replace(KEY, device="opencl:Mali-T860"), replace(KEY, device="cuda:sm_87")
    put(store, 1.0)
    put(store, 1.0, key=LOWER)
    put(store, 2.0, key=replace(jetson, threads=1))
    assert lookup(store, mali, KINDS) is None
    record = put(store, 5.0, key=replace(mali, level="x86-64"))
    assert lookup(store, mali, KINDS).record == record
    assert lookup(store, jetson, KINDS).record.best_ms == 2.0
    assert lookup(store, KEY, KINDS).record.key.device == ""


MODELLED = replace(PROVENANCE, board="mali-model", modelled=True)


def test_modelled_record_is_used_without_a_measured_one(store: RecordStore) -> None:
    modelled = put(store, 1.0, provenance=MODELLED)
    assert lookup(store, KEY, KINDS).record == modelled
    far = put(store, 9.0, key=OTHER_THREADS)
    assert lookup(store, KEY, KINDS).record == far, "it is slower, and of other threads; but it was measured"
    exact = put(store, 7.0)
    assert lookup(store, KEY, KINDS).record == exact


def test_shipped_measurement_wins_over_the_users_model(store: RecordStore, tmp_path: Path) -> None:
    def shipped(name: str, **changes: object) -> Path:
        path = tmp_path / f"{name}.jsonl"
        with RecordStore(tmp_path / f"{name}.sqlite") as maker:
            put(maker, 5.0, **changes)
            write_records(path, maker.functions(), maker.all())
        return path

    measured, modelled = shipped("measured"), shipped("modelled", provenance=MODELLED)
    assert lookup(store, KEY, KINDS, shipped=modelled).shipped
    users_record = put(store, 1.0, provenance=MODELLED)
    assert lookup(store, KEY, KINDS, shipped=modelled).record == users_record
    hit = lookup(store, KEY, KINDS, shipped=measured)
    assert hit.shipped and hit.record.best_ms == 5.0
    real = put(store, 8.0)
    assert lookup(store, KEY, KINDS, shipped=measured).record == real


def test_next_best_is_tried_if_the_best_is_unusable(store: RecordStore) -> None:
    confirmed = put(store, 3.0, payload="winograd", confirmed=True)
    slow = put(store, 5.0, payload="direct", digest="slow")
    fast = put(store, 4.0, payload="direct", digest="fast")
    other = put(store, 1.0, payload="direct", key=OTHER_CPU)

    def direct(record: Record) -> bool:
        return record.payload == "direct"

    assert lookup(store, KEY, KINDS).record == confirmed
    assert lookup(store, KEY, KINDS, usable=direct).record == fast
    hit = lookup(store, KEY, KINDS, usable=lambda record: record == slow)
    assert (hit.record, hit.how) == (slow, "exact")
    hit = lookup(store, KEY, KINDS, usable=lambda record: record == other)
    assert (hit.record, hit.how) == (other, "other-cpu-or-threads")
    assert lookup(store, KEY, KINDS, usable=lambda _record: False) is None
    again = put(store, 6.0, payload="direct", confirmed=True)  # stands before faster ones that were not
    assert lookup(store, KEY, KINDS, usable=direct).record == again


def test_other_kinds_are_ignored(store: RecordStore) -> None:
    put(store, 1.0, kind="cpu", payload="not for us")
    record = put(store, 2.0)
    offered = []
    assert (
        lookup(store, KEY, KINDS, usable=lambda record_offered: not offered.append(record_offered)).record
        == record
    )
    assert offered == [record]


@given(st.sampled_from(LEVELS), st.sampled_from(LEVELS), st.sampled_from(LEVELS))
def test_levels_are_ordered(a: str, b: str, c: str) -> None:
    assert level_rank(a, a) is not None
    if level_rank(a, b) is not None and level_rank(b, a) is not None:
        assert a == b
    if level_rank(a, b) is not None and level_rank(b, c) is not None:
        assert level_rank(a, c) <= level_rank(b, c) <= level_rank(c, c)


def test_features_are_required() -> None:
    assert level_rank("neon", "neon+dotprod") is not None
    assert level_rank("neon+dotprod", "neon") is None
    assert level_rank("neon", "x86-64") is None

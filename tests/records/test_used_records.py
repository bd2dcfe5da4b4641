"""Which records builds take, of many that they do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.records.samples import KEY, put
from toolchain.backends.table import BACKENDS
from toolchain.records.distill import BuildVariant, used_records
from toolchain.records.store import RecordStore, anything

BUILDS = [build for offer in BACKENDS for build in offer.builds]
WINOGRAD, DIRECT = '{"algorithm":"winograd"}', '{"algorithm":"direct"}'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as store:
        yield store


def test_every_build_variant_has_its_record(store: RecordStore) -> None:
    winograd = put(store, 1.0, kind="cpu", payload=WINOGRAD)
    direct = put(store, 3.0, kind="cpu", payload=DIRECT)
    put(store, 4.0, kind="cpu", payload=DIRECT)
    trace = put(store, 9.0)
    put(store, 2.0, kind="cpu", payload="", run_ms=(), failure="timeout")
    cut = put(store, 5.0, kind="vta", payload="tile_h=1")
    rounded = put(store, 0.5, kind="tfloat32", payload=DIRECT)
    chosen = [entry.record for entry in used_records(store, BUILDS)]
    assert set(chosen) == {winograd, direct, trace, cut, rounded}
    # The same as builds ask for, one after the other.
    assert set(chosen) == {store.best(KEY, build.kinds, build.usable) for build in BUILDS}


def test_keep_counts_candidates_and_not_measurements(store: RecordStore) -> None:
    put(store, 2.0, digest="a")
    again = put(store, 2.2, digest="a", confirmed=True)
    others = [put(store, ms, digest=digest) for ms, digest in ((3.0, "b"), (4.0, "c"))]
    for keep, expected in ((1, [again]), (2, [again, others[0]]), (9, [again, *others])):
        assert [entry.record for entry in used_records(store, BUILDS, keep)] == expected


def test_unknown_kinds_are_kept(store: RecordStore) -> None:
    toy = put(store, 2.0, kind="toy")
    put(store, 3.0, kind="toy")
    assert [entry.record for entry in used_records(store, [BuildVariant(("cpu",), anything)])] == [toy]

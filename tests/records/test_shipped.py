from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.records.samples import KEY, KINDS, put
from toolchain.errors import UsageError
from toolchain.records import lookup as module
from toolchain.records.exchange import read_line, read_records, write_records
from toolchain.records.lookup import SHIPPED, ShippedFile, lookup, shipped_file
from toolchain.records.store import RecordStore

OTHER = replace(KEY, workload="1" * 16)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "own.sqlite") as store:
        yield store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with two records of one task and one of another."""
    path = tmp_path / "records.jsonl"
    with RecordStore(tmp_path / "maker.sqlite") as maker:
        put(maker, 2.0)
        put(maker, 1.0)
        put(maker, 3.0, key=OTHER)
        write_records(path, maker.functions(), maker.all())
    return path


def test_only_lines_of_the_task_are_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    real = read_line
    monkeypatch.setattr(module, "read_line", lambda *line: read.append(line[1]) or real(*line))
    file = ShippedFile(path)
    assert read == [] and file.store("2" * 16) is None
    # Both tasks have one definition here, which stands with the first of them.
    with file.store(KEY.workload) as records_of_task:
        assert [record.best_ms for record in records_of_task.all()] == [2.0, 1.0]
    assert len(read) == 3


def test_shipped_records_are_used_last(store: RecordStore, path: Path) -> None:
    hit = lookup(store, KEY, KINDS, shipped=path)
    assert hit is not None
    assert (hit.record.best_ms, hit.how, hit.shipped, hit.definition) == (1.0, "exact", True, "{}")
    assert lookup(store, KEY, KINDS, shipped=None) is None
    assert lookup(store, KEY, KINDS, shipped=path.with_name("none")) is None  # not there: no error
    assert lookup(store, replace(KEY, workload="2" * 16), KINDS, shipped=path) is None
    users = put(store, 9.0, key=replace(KEY, level="x86-64-v2"))
    hit = lookup(store, KEY, KINDS, shipped=path)
    assert hit is not None and (hit.record, hit.shipped) == (users, False)
    assert store.all() == [users], "nothing of it is copied"


def test_unusable_records_do_not_hide_shipped_ones(store: RecordStore, path: Path) -> None:
    put(store, 0.5, payload="not usable")
    hit = lookup(store, KEY, KINDS, shipped=path, usable=lambda record: record.payload == "{}")
    assert hit is not None and hit.shipped and hit.record.best_ms == 1.0


def test_damaged_line_is_named(store: RecordStore, path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"threads":4', b'"threads":"x"'))
    with pytest.raises(UsageError, match=r"records\.jsonl, line 3 is damaged"):
        lookup(store, KEY, KINDS, shipped=path)


def test_shipped_file_is_readable() -> None:
    """Holds for any file that is put there; without one there is nothing to ask."""
    shipped = shipped_file(SHIPPED)
    if shipped is None:
        assert not SHIPPED.exists()
        return
    functions, records = read_records(SHIPPED)
    for function in functions:
        assert {record.workload for record in functions if record.id == function.id} == {function.workload}
    assert not any(record.failure or record.key.emulated for record in records)
    for record in records:  # what a model said holds for the one device that there is a model of
        assert not record.provenance.modelled or record.key.device == "opencl:mali-t860"
    for workload in {record.key.workload for record in records}:
        store = shipped.store(workload)
        assert store is not None
        with store:
            assert {record.key.workload for record in store.all()} == {workload}


def test_modelled_shipped_records_are_for_their_device(store: RecordStore) -> None:
    """Neither a CPU's build takes it, nor another driver's, nor one for an emulated board."""
    _functions, records = read_records(SHIPPED)
    assert any(record.provenance.modelled for record in records)
    for record in (candidate for candidate in records if candidate.provenance.modelled):
        hit = lookup(store, record.key, [record.kind])
        assert hit is not None and hit.shipped and hit.record.provenance.modelled
        for other in (
            replace(record.key, device=""),
            replace(record.key, device="opencl:pthread-cpu"),
            replace(record.key, board_class=record.key.board_class + "+emulated"),
        ):
            assert lookup(store, other, [record.kind]) is None

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.records.samples import KEY, KINDS, PROVENANCE, put
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.records.database import Selection
from toolchain.records.distill import BuildVariant, distill, repair, unreadable_warning, used_records
from toolchain.records.store import RecordStore, anything

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "data" / "records.sqlite") as store:
        yield store


def test_best_is_the_fastest_record(store: RecordStore) -> None:
    put(store, 2.0)
    fastest = put(store, 1.0, run_ms=(0.5, 1.5), payload='{"trace": ["ü"]}')
    put(store, 3.0)
    put(store, 0.1, key=replace(KEY, threads=2))
    assert store.best(KEY, KINDS) == fastest
    assert fastest.best_ms == 1.0
    assert store.definition(fastest.function) == "{}"
    assert len(store.all()) == 4


def test_best_considers_the_given_kinds(store: RecordStore) -> None:
    toy = put(store, 2.0, kind="toy", payload="3 knobs", key=replace(KEY, device="toy:numpy"))
    put(store, 1.0)
    assert store.best(toy.key, ("toy",)) == toy
    assert store.best(toy.key, ("toy", "other")) == toy
    assert store.best(toy.key, KINDS) is None
    assert store.best(KEY, ("toy",)) is None


def test_newest_filters_by_kind(store: RecordStore) -> None:
    old, toy, failed = (
        put(store, 2.0),
        put(store, 1.0, kind="toy"),
        put(store, 3.0, run_ms=(), failure="build"),
    )
    assert list(store.newest(Selection(kinds=KINDS))) == [failed, old]
    assert list(store.newest(Selection(kinds=("toy", *KINDS)))) == list(store.newest()) == [failed, toy, old]
    assert list(store.newest(Selection(kinds=("other",)))) == []


def test_measured_wins_over_modelled(store: RecordStore) -> None:
    model = replace(PROVENANCE, modelled=True)
    fast = put(store, 1.0, provenance=model, confirmed=True)
    assert store.best(KEY, KINDS) == fast and fast.provenance.modelled
    measured = put(store, 2.0)
    assert store.best(KEY, KINDS) == measured


def test_definition_can_be_any_text(store: RecordStore) -> None:
    text = "y = a·b  # not JSON\n"
    assert store.definition(store.add_function("1" * 16, "dot", text)) == text


def test_another_process_sees_the_record(store: RecordStore) -> None:
    record = put(store, 2.0)
    with RecordStore(Path(store.name)) as other:
        assert other.best(KEY, KINDS) == record


def test_failures_keep_their_class_and_are_never_best(store: RecordStore) -> None:
    for digest, failure in (("a", "build"), ("b", "build"), ("c", "timeout"), ("d", "upload")):
        put(store, 0.0, run_ms=(), failure=failure, digest=digest)
    assert store.best(KEY, KINDS) is None
    assert [record.failure for record in store.all(KEY)] == ["build", "build", "timeout", "upload"]
    assert store.measured(KEY) == {"a", "b", "c"}  # an upload that failed says nothing about d


def test_refuted_candidate_is_never_best(store: RecordStore) -> None:
    put(store, 1.0, digest="fast")
    right = put(store, 2.0, digest="slow")
    put(store, 1.0, digest="fast", run_ms=(), failure="wrong result")
    best = store.best(KEY, KINDS)
    assert best is not None and best.digest == right.digest
    assert [record.digest for record in store.bests(KEY, KINDS)] == [right.digest]
    again = put(store, 1.5, digest="fast")
    assert store.best(KEY, KINDS) == again, "another version may compute it rightly"


@pytest.mark.parametrize("ms", [-1.0, 0.0, 5e-324, 1e-300, 9.9e-7, float("nan"), float("inf"), 1e300])
def test_refuses_impossible_times(store: RecordStore, ms: float) -> None:
    put(store, 2.0)
    with pytest.raises(CheckError, match=r"board local reported an impossible time: .* ms"):
        put(store, 1.0, run_ms=(0.5, ms))
    with pytest.raises(CheckError):
        put(store, 1.0, run_ms=())
    assert [record.best_ms for record in store.all()] == [2.0]


@pytest.mark.parametrize("ms", [-1.0, 0.0, 1e-300, float("inf")])
def test_impossible_times_of_earlier_versions_are_ignored(store: RecordStore, ms: float) -> None:
    good, bad = put(store, 2.0), put(store, 3.0)
    with sqlite3.connect(Path(store.name)) as db:
        db.execute("UPDATE records SET best_ms=?, run_ms=? WHERE digest=?", (ms, f"[{ms}]", bad.digest))
    assert store.best(KEY, KINDS) == good
    assert [store.best(KEY, ("metaschedule",))] == store.all() == [good]
    assert store.measured(KEY) == {good.digest}


@pytest.mark.parametrize("text", ["abc", "5", "[]", "[null]", '["1"]', "[-1.0, 5.0]", "[" * 5000])
def test_row_with_malformed_times_is_skipped_and_named(store: RecordStore, text: str) -> None:
    put(store, 1.0, digest="bad")
    good = put(store, 2.0)
    with sqlite3.connect(Path(store.name)) as db:
        db.execute("UPDATE records SET run_ms=? WHERE digest='bad'", (text,))
    assert store.best(KEY, KINDS) == good
    assert store.bests(KEY, KINDS) == store.all() == list(store.newest()) == [good]
    chosen = [(entry.number, entry.record) for entry in used_records(store, [BuildVariant(KINDS, anything)])]
    assert chosen == [(2, good)], "the first of its group is behind one that is unreadable"
    assert list(store.unreadable) == [1]
    says = unreadable_warning(store)
    assert says is not None and says.startswith(f"skipped 1 unreadable record of {store.name}: row 1: ")
    assert store.unreadable[1].startswith("a record must have either times" if text == "[]" else "run_ms: ")
    assert "`toolchain records repair` removes them" in says


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("threads", "four"),
        ("failure", "hunger"),
        ("level", b"\xff"),
        ("temperature_c", "warm"),
        ("created", "2026-07-01T00:00:00"),
        ("created", b"2026"),
        ("governor", "CAST(x'70ff' AS TEXT)"),
    ],
)
def test_row_with_a_column_of_another_type_is_skipped(store: RecordStore, column: str, value: object) -> None:
    put(store, 1.0, digest="bad")
    good = put(store, 2.0)
    with sqlite3.connect(Path(store.name)) as db:
        db.execute("PRAGMA ignore_check_constraints=ON")
        times = "[]" if column == "failure" else "[2.0]"
        is_sql = isinstance(value, str) and value.startswith("CAST")
        set_to, values = (value, (times,)) if is_sql else ("?", (value, times))
        db.execute(f"UPDATE records SET {column}={set_to}, run_ms=? WHERE id=1", values)  # noqa: S608
    assert store.all() == [good]
    assert column in store.unreadable[1]


def test_repair_removes_only_unreadable_rows(store: RecordStore) -> None:
    for ms in (1.0, 2.0, 3.0, 4.0):
        put(store, ms)
    put(store, 5.0, run_ms=(), failure="build")
    with sqlite3.connect(Path(store.name)) as db:
        db.execute("UPDATE records SET run_ms='{-1.0}' WHERE id=2")
        db.execute("UPDATE records SET run_ms='[-1.0]', best_ms=-1.0 WHERE id=3")  # of an earlier version
    builds = [BuildVariant(KINDS, anything)]
    assert distill(store, builds, 9, failures=True, dry_run=True).removed == 1, "what is unknown is kept"
    assert list(repair(store, dry_run=True)) == [2, 3]
    assert sorted(store.numbers(failures=True)) == [1, 2, 3, 4, 5]
    assert list(repair(store)) == [2, 3]
    assert sorted(store.numbers(failures=True)) == [1, 4, 5]
    with RecordStore(Path(store.name)) as again:
        assert repair(again) == {} and unreadable_warning(again) is None


def test_record_without_its_function_means_a_damaged_store(store: RecordStore) -> None:
    record = put(store, 2.0)
    with sqlite3.connect(Path(store.name)) as db:
        db.execute("DELETE FROM functions")
    with pytest.raises(UsageError, match=f"there is no function {record.function}"):
        store.definition(record.function)


def test_sqlite_errors_that_are_not_utf8(store: RecordStore) -> None:
    put(store, 2.0)
    store.close()
    data = Path(store.name).read_bytes()
    named, statement = b"tablefunctionsfunctions", b"CREATE TABLE functions"
    assert named in data and statement in data
    data = data.replace(named, b"table\xff\x81nctionsfunctions").replace(statement, b"CREATE NOTHING of this")
    Path(store.name).write_bytes(data)
    with pytest.raises(UsageError, match="its tables are damaged"):
        RecordStore(Path(store.name))


def test_measured_digests_are_per_key(store: RecordStore) -> None:
    put(store, 2.0, digest="a")
    assert store.measured(KEY) == {"a"}
    assert store.measured(replace(KEY, board_class="x86_64+emulated")) == set()
    assert store.measured(replace(KEY, device="cuda:sm_87")) == set()


def test_default_that_won_is_a_record(store: RecordStore) -> None:
    put(store, 2.0)
    put(store, 1.0, kind="default", payload="")
    assert store.best(KEY, KINDS).kind == "default"
    best = store.best(KEY, ("metaschedule",))
    assert best is not None and best.best_ms == 2.0


def test_refuses_a_record_of_an_unknown_function(store: RecordStore) -> None:
    record = put(store, 1.0)
    with pytest.raises(ToolchainError, match="FOREIGN KEY"):
        store.add(replace(record, function="nowhere"))


def test_refuses_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    path.write_bytes(b"these are not records, whatever the name says" * 100)
    with pytest.raises(UsageError, match="cannot be read") as caught:
        RecordStore(path)
    assert str(path) in caught.value.message
    assert "move the file away" in caught.value.hint
    assert path.read_bytes().startswith(b"these are not")


def test_a_damaged_page(store: RecordStore) -> None:
    for ms in range(1, 400):
        put(store, float(ms), payload="x" * 1000)
    store.close()
    with Path(store.name).open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(Path(store.name).stat().st_size - 4096))
    with pytest.raises(UsageError, match="cannot be read"), RecordStore(Path(store.name)) as damaged:
        damaged.all()


def test_refuses_another_programs_database(tmp_path: Path) -> None:
    path = tmp_path / "bookmarks.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE bookmarks (url)")
    db.close()
    with pytest.raises(UsageError, match="not a store of records"):
        RecordStore(path)


def test_a_newer_schema(store: RecordStore) -> None:
    store.close()
    db = sqlite3.connect(Path(store.name))
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(UsageError, match="version 99, this toolchain reads versions 1 to 2"):
        RecordStore(Path(store.name))


def test_a_folder_where_the_file_should_be(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="cannot write"):
        RecordStore(tmp_path)


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(ToolchainError, match=r"cannot write .*records\.sqlite") as caught:
        RecordStore(tmp_path / "data" / "records.sqlite")
    assert "TOOLCHAIN_DATA_DIR names the folder" in caught.value.hint


def test_immutable_file_needs_no_writable_folder(store: RecordStore) -> None:
    record = put(store, 1.0)
    store.close()
    before = sorted(path.name for path in Path(store.name).parent.iterdir())
    with RecordStore(Path(store.name), read_only=True) as shipped:
        assert shipped.best(KEY, KINDS) == record
        assert sorted(path.name for path in Path(store.name).parent.iterdir()) == before
        with pytest.raises(ToolchainError, match="cannot write"):
            put(shipped, 2.0)


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    program = [sys.executable, "-m", "tests.records.writer", str(path), "1000"]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, preexec_fn=_limited, timeout=60)
    assert f"cannot write {path}" in ended.stderr.splitlines()[-1]
    written = ended.stdout.count("\n")
    with RecordStore(path) as store:  # what was said to be written is there, and writing goes on
        assert len(store.all()) == written > 0
        put(store, 1.0)


@pytest.mark.slow
def test_a_kill_loses_at_most_the_record_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.records.writer", str(path), "100000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        lines = [writer.stdout.readline() for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    with RecordStore(path) as store:
        assert len(lines) <= len(store.all()) <= len(lines) + 1
        assert {f"digest-{line.strip()}" for line in lines} <= store.measured(KEY)


@pytest.mark.slow
def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    program = [sys.executable, "-m", "tests.records.writer", str(path), "50"]
    writers = [subprocess.Popen(program, cwd=ROOT, stdout=subprocess.DEVNULL) for _ in range(4)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0, 0]
    with RecordStore(path) as store:
        assert len(store.all()) == 200

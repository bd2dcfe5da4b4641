"""A store that the version before wrote: see tools/make_records_1.py for what is in it."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.records.samples import KEY, KINDS, PROVENANCE, put
from toolchain.backends.packed.kinds import KINDS as PACKED
from toolchain.backends.packed.kinds import usable
from toolchain.errors import ToolchainError, UsageError
from toolchain.records.lookup import lookup
from toolchain.records.record import Record
from toolchain.records.store import RecordStore

ROOT = Path(__file__).parents[2]
WRITTEN = ROOT / "tests" / "data" / "records" / "version-1.sqlite"
OTHER = replace(KEY, workload="1234123412341234", cpu="cortex-a72", board_class="rk3399+emulated")

# Dies as it makes its second digest, in the middle of the migration.
KILLED = """
import os, signal, sys
from pathlib import Path
from toolchain.records import sqlite as migration
from toolchain.records.store import RecordStore
digests = []
def digest(payload):
    digests.append(payload)
    if len(digests) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return "changed"
migration.digest_of_choice = digest
RecordStore(Path(sys.argv[1]))
"""
OPENED = """
import sys
from pathlib import Path
from toolchain.records.store import RecordStore
print("ready", flush=True)
sys.stdin.read()
with RecordStore(Path(sys.argv[1])) as store:
    print(len(store.all()))
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copy(WRITTEN, tmp_path / "records.sqlite"))


def version(path: Path) -> int:
    with sqlite3.connect(path) as db:
        number = db.execute("PRAGMA user_version").fetchone()[0]
    db.close()
    return int(number)


def best(store: RecordStore, *, winograd: bool) -> Record:
    hit = lookup(store, KEY, PACKED, shipped=None, usable=usable(winograd))
    assert hit is not None
    return hit.record


def check_found(store: RecordStore) -> None:
    """Check that every record of the old file is there, and decides what it decided before."""
    records = store.all()
    assert len(records) == 11
    assert {record.kind for record in records} == {"cpu", "metaschedule", "default"}
    assert {record.key.device for record in records} == {""}
    assert [record.failure for record in records if record.failure] == ["timeout", "upload", "timeout"]
    with_winograd, without = best(store, winograd=True), best(store, winograd=False)
    assert ('"algorithm":"winograd"' in with_winograd.payload, with_winograd.best_ms) == (True, 1.0)
    assert ('"algorithm":"direct"' in without.payload, without.best_ms) == (True, 2.0)
    assert (with_winograd.confirmed, without.confirmed) == (True, True)
    assert (with_winograd.provenance.excluded, without.provenance.excluded) == ("", "winograd")
    assert store.definition(without.function) == '{"function":"ü"}'
    winner = store.best(OTHER, KINDS)
    assert winner is not None and (winner.kind, winner.confirmed) == ("default", True)
    other = store.best(OTHER, ("metaschedule",))
    assert other is not None and other.best_ms == 7.5


def test_records_of_version_1_are_found(old: Path) -> None:
    with RecordStore(old) as store:
        check_found(store)
        put(store, 5.0, key=replace(KEY, device="cuda:sm_87"))
    assert version(old) == 2
    with RecordStore(old) as again:
        assert len(again.all()) == 12


def test_records_without_winograd_count_for_every_search(old: Path) -> None:
    with RecordStore(old) as store:
        assert {record.digest for record in store.all(KEY)} == {
            sha256(f"cpu {record.payload}".encode()).hexdigest() for record in store.all(KEY)
        }
        assert len(store.measured(KEY)) == 7  # of eight choices, the one that could not be uploaded is left


def test_read_only_file_is_not_changed(old: Path) -> None:
    before = old.read_bytes()
    old.chmod(0o400)
    with RecordStore(old, read_only=True) as store:
        check_found(store)
        with pytest.raises(ToolchainError, match="cannot write"):
            put(store, 1.0)
    assert old.read_bytes() == before
    assert [path.name for path in old.parent.iterdir()] == [old.name]


@pytest.mark.slow
def test_concurrent_processes_migrate_once(old: Path) -> None:
    program = [sys.executable, "-c", OPENED, str(old)]
    pipe = subprocess.PIPE
    opened = [
        subprocess.Popen(program, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(3)
    ]
    for process in opened:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in opened:
        assert process.stdin is not None
        process.stdin.close()
    for process in opened:
        assert process.stdout is not None and process.stderr is not None
        with process:
            assert (process.stdout.read(), process.stderr.read()) == ("11\n", "")
            assert process.wait(timeout=60) == 0
    with RecordStore(old) as store:
        check_found(store)


@pytest.mark.slow
def test_killed_migration_leaves_the_old_version(old: Path) -> None:
    with sqlite3.connect(old) as db:
        before = db.execute("SELECT * FROM records").fetchall()
    db.close()
    ended = subprocess.run([sys.executable, "-c", KILLED, str(old)], cwd=ROOT, timeout=60, check=False)
    assert ended.returncode == -9
    assert version(old) == 1
    with sqlite3.connect(old) as db:
        assert db.execute("SELECT * FROM records").fetchall() == before
    db.close()
    with RecordStore(old) as store:
        check_found(store)


@pytest.mark.parametrize("read_only", [False, True])
def test_refuses_a_newer_version(old: Path, read_only: bool) -> None:
    set_version(old, 3)
    with pytest.raises(
        UsageError, match="has schema version 3, this toolchain reads versions 1 to 2"
    ) as caught:
        RecordStore(old, read_only=read_only)
    assert "use the newer toolchain that wrote it" in caught.value.hint
    assert version(old) == 3


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("read_only", [False, True])
def test_unknown_version_counts_as_damage(old: Path, number: int, read_only: bool) -> None:
    set_version(old, number)
    with pytest.raises(UsageError, match=f"schema version {number} never existed") as caught:
        RecordStore(old, read_only=read_only)
    assert "move the file away" in caught.value.hint


@pytest.mark.parametrize("read_only", [False, True])
def test_old_file_with_other_tables_is_refused_unchanged(old: Path, read_only: bool) -> None:
    with sqlite3.connect(old) as db:
        db.execute("ALTER TABLE functions RENAME COLUMN module TO something")
    db.close()
    with pytest.raises(UsageError, match=r"the records in .* cannot be read: .*module") as caught:
        RecordStore(old, read_only=read_only)
    assert "move the file away" in caught.value.hint
    assert version(old) == 1


def test_a_damaged_page_of_an_old_file(old: Path) -> None:
    with old.open("r+b") as file:
        file.seek(512)
        file.write(b"\xff" * (old.stat().st_size - 512))
    with pytest.raises(UsageError, match=r"the records in .* cannot be read"), RecordStore(old) as store:
        store.all()


def set_version(path: Path, number: int) -> None:
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={number}")
    db.close()


@pytest.fixture
def narrow(tmp_path: Path) -> Path:
    """Return a store of this version as a program made it that knew fewer columns."""
    path = tmp_path / "narrow.sqlite"
    with RecordStore(path) as store:
        put(store, 5.0)
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE records DROP COLUMN conditions")
    db.close()
    return path


def test_missing_columns_are_added(narrow: Path) -> None:
    with RecordStore(narrow) as store:
        known = replace(PROVENANCE, conditions='{"clock_mhz": 1980.0}')
        put(store, 4.0, provenance=known)
        assert [record.provenance.conditions for record in store.all()] == [None, known.conditions]
    assert version(narrow) == 2


def test_read_only_file_without_columns_is_not_changed(narrow: Path) -> None:
    before = narrow.read_bytes()
    with RecordStore(narrow, read_only=True) as store:
        assert [record.best_ms for record in store.all()] == [5.0]
    assert narrow.read_bytes() == before

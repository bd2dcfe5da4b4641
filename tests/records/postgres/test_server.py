"""The store on a PostgreSQL server."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.records.plans import Watched, ask_everything
from tests.records.postgres.server import PASSWORD, USER, Postgres, postgres
from tests.records.samples import KEY, KINDS, PROVENANCE, put
from tests.records.test_growth import fill
from toolchain.backends.table import BACKENDS
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.records.database import INDEXES
from toolchain.records.distill import BuildVariant, distill, taken
from toolchain.records.exchange import read_records, write_records
from toolchain.records.lookup import lookup
from toolchain.records.postgres import server as connecting
from toolchain.records.postgres import server as module
from toolchain.records.postgres.server import connect
from toolchain.records.repair import repair
from toolchain.records.store import RecordStore, anything

ROOT = Path(__file__).parents[3]
BUILDS = [build for offer in BACKENDS for build in offer.builds]
pytestmark = pytest.mark.slow  # all of them wait for a server to start


@pytest.fixture
def store(postgres_url: str) -> Iterator[RecordStore]:
    with RecordStore(connect(postgres_url)) as opened:
        yield opened


def test_it_answers_as_the_file_does(store: RecordStore, tmp_path: Path) -> None:
    with RecordStore(tmp_path / "records.sqlite") as file:
        for each in (store, file):
            at = {"created": "2026-01-01T00:00:00.000+00:00"}
            put(each, 2.0, payload="ü 🦀", **at)
            put(each, 3.0, confirmed=True, **at)
            put(each, 4.0, confirmed=True, digest="later", **at)
            put(
                each, 1.0, provenance=replace(PROVENANCE, modelled=True, temperature_c=None, trial=None), **at
            )
            put(each, 0.0, run_ms=(), failure="timeout", digest="t", **at)
            put(each, 0.0, run_ms=(), failure="upload", digest="u", **at)
            put(each, 5.0, key=replace(KEY, threads=1), run_ms=(4.9999999999999, 5.1), **at)
        assert store.all() == file.all()
        assert store.all(KEY) == file.all(KEY) and len(store.all(KEY)) == 6
        assert store.best(KEY, KINDS) == file.best(KEY, KINDS) == store.all()[2]
        assert store.bests(KEY, KINDS) == file.bests(KEY, KINDS)
        assert store.measured(KEY) == file.measured(KEY)
        assert taken(store, BUILDS) == taken(file, BUILDS)
        assert store.functions() == file.functions()
        hit = lookup(store, replace(KEY, cpu="znver4"), KINDS, shipped=None)
        assert hit == lookup(file, replace(KEY, cpu="znver4"), KINDS, shipped=None)
        assert hit is not None and hit.how == "other-cpu-or-threads" and hit.definition == "{}"


def test_records_go_there_and_back(store: RecordStore, tmp_path: Path) -> None:
    with RecordStore(tmp_path / "records.sqlite") as file:
        put(file, 2.0)
        put(file, 0.0, run_ms=(), failure="build", provenance=replace(PROVENANCE, trial=None, governor=None))
        path = tmp_path / "x.jsonl"
        write_records(path, file.functions(), file.all())
        assert [store.add_new(*read_records(path)) for _ in range(2)] == [2, 0]
        assert store.all() == file.all()
        write_records(path, store.functions(), store.all())
        assert file.add_new(*read_records(path)) == 0


def test_an_import_is_whole_or_nothing(store: RecordStore) -> None:
    record = put(store, 1.0)
    bad = replace(record, function="nowhere", digest="bad")
    with pytest.raises(ToolchainError, match=r"refused.*foreign key"):
        store.add_new([], [replace(record, digest="good"), bad])
    assert store.all() == [record]


def test_it_is_distilled(store: RecordStore, postgres_url: str) -> None:
    for ms in range(1, 20):
        put(store, float(ms))
    put(store, 0.0, run_ms=(), failure="build", digest="f")
    best = store.best(KEY, KINDS)
    done = distill(store, [BuildVariant(KINDS, anything)], 1, failures=False)
    assert (done.kept, done.removed, done.removed_failures) == (1, 18, 1)
    with RecordStore(connect(postgres_url)) as other:
        assert other.all() == [best] and len(other.functions()) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("run_ms='{-1.0}'", "it begins with '{-1.0}'"),
        ("failure='hunger', run_ms='[]', best_ms=NULL", "failure is 'hunger'"),
    ],
)
def test_a_row_that_cannot_be_read_is_skipped_named_and_removed(
    store: RecordStore, postgres_server: Postgres, postgres_url: str, change: str, says: str
) -> None:
    put(store, 1.0)
    good = put(store, 2.0)
    postgres_server.sql(f"UPDATE records SET {change} WHERE best_ms=1.0", postgres_url)  # noqa: S608
    assert store.best(KEY, KINDS) == good and store.all() == [good]
    hit = lookup(store, KEY, KINDS, shipped=None)
    assert hit is not None and hit.record == good
    assert says in store.unreadable[1]
    assert list(repair(store)) == [1]
    assert postgres_server.sql("SELECT id FROM records", postgres_url) == [(2,)]


def test_several_that_begin_at_once_make_the_tables_once(
    postgres_server: Postgres, postgres_url: str
) -> None:
    program = [sys.executable, "-m", "tests.records.postgres.writer", postgres_url, "20"]
    writers = [subprocess.Popen(program, cwd=ROOT, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [writer.wait(timeout=300) for writer in writers] == [0, 0, 0]
    assert postgres_server.sql("SELECT count(*) FROM records", postgres_url) == [(60,)]
    assert postgres_server.sql("SELECT version FROM edge_toolchain", postgres_url) == [(2,)]


def test_many_that_begin_at_once_in_one_process(postgres_url: str) -> None:
    begin = threading.Barrier(8)

    def begun(_number: int) -> int:
        begin.wait()
        with RecordStore(connect(postgres_url)) as store:
            return len(store.all())

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(begun, range(8))) == [0] * 8


def test_a_killed_writer_leaves_what_it_said(postgres_url: str) -> None:
    program = [sys.executable, "-m", "tests.records.postgres.writer", postgres_url, "100000"]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        said = [writer.stdout.readline() for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.readlines()
    with RecordStore(connect(postgres_url)) as store:
        assert len(said) <= len(store.all()) <= len(said) + 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE edge_toolchain SET version=99", "has schema version 99, this toolchain reads version 2"),
        ("DELETE FROM edge_toolchain", "has schema version none"),
        ("DROP TABLE edge_toolchain", "has a table records that is not ours"),
    ],
)
def test_tables_of_another_version_or_of_others(
    postgres_server: Postgres, postgres_url: str, change: str, says: str
) -> None:
    with RecordStore(connect(postgres_url)) as store:
        put(store, 1.0)
    postgres_server.sql(change, postgres_url)
    with pytest.raises(UsageError, match=says) as caught:
        connect(postgres_url)
    assert PASSWORD not in str(caught.value) and caught.value.hint
    assert postgres_server.sql("SELECT count(*) FROM records", postgres_url) == [(1,)]


def test_tables_that_somebody_changed(postgres_server: Postgres, postgres_url: str) -> None:
    with RecordStore(connect(postgres_url)) as store:
        put(store, 1.0)
        postgres_server.sql("ALTER TABLE records DROP COLUMN kind", postgres_url)
        with pytest.raises(UsageError, match=r"records in the database .* cannot be read"):
            store.all()


def test_who_may_only_read_reads(postgres_server: Postgres, postgres_url: str) -> None:
    with RecordStore(connect(postgres_url)) as store:
        record = put(store, 1.0)
    postgres_server.sql(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    schema = postgres_url.rpartition("%3D")[2]
    postgres_server.sql(f"GRANT USAGE ON SCHEMA {schema} TO reader")
    reader = postgres_url.replace(USER, "reader", 1)
    with pytest.raises(ToolchainError, match="refused: permission denied") as caught:
        connect(reader)
    assert "GRANT SELECT" in caught.value.hint
    postgres_server.sql("GRANT SELECT ON records, functions, edge_toolchain TO reader", postgres_url)
    with RecordStore(connect(reader)) as store:
        assert store.best(KEY, KINDS) == record
        with pytest.raises(ToolchainError, match="permission denied for table records") as caught:
            store.add(record)
        assert "GRANT" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "says", "hint"),
    [
        (
            lambda url: url.replace(quote(PASSWORD, safe=""), "wrong"),
            "password authentication failed",
            ".pgpass",
        ),
        (lambda url: url.replace(":" + quote(PASSWORD, safe=""), ""), "no password supplied", ".pgpass"),
        (lambda url: url.rpartition("/")[0] + "/nosuch", 'database "nosuch" does not exist', "records_url"),
        (lambda url: url + "?sslmode=require", "does not support SSL", "records_url"),
        (lambda url: url + "?colour=red", 'invalid connection option "colour"', "records_url"),
        (lambda url: url.replace("127.0.0.1", "127.0.0.2"), "127.0.0.2", "start the server"),
    ],
)
def test_addresses_where_nobody_answers(
    postgres_server: Postgres,
    change: Callable[[str], str],
    says: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, told = postgres_server.url(), list[str]()
    nobody = "127.0.0.2" in says
    if nobody:
        monkeypatch.setattr(module, "_AWAY_S", 1.0)
    with pytest.raises(ToolchainError, match=says) as caught:
        connect(change(url), told.append)
    assert len(told) == nobody, "who refuses is not waited for"
    assert hint in caught.value.hint
    assert PASSWORD not in str(caught.value) and quote(PASSWORD, safe="") not in str(caught.value)


def test_the_driver_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingError) as caught:
        connect(f"postgresql://u:{quote(PASSWORD, safe='')}@db/x")
    assert "edge-toolchain[postgres]" in caught.value.hint and PASSWORD not in str(caught.value)


def test_a_connection_that_breaks_is_made_again(postgres_server: Postgres, postgres_url: str) -> None:
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name='edge-toolchain'"
    with RecordStore(connect(postgres_url)) as store:
        put(store, 1.0)
        for ms in (2.0, 3.0):
            postgres_server.sql(others)
            put(store, ms)
        postgres_server.sql(others)
        assert [record.best_ms for record in store.all()] == [1.0, 2.0, 3.0]


@pytest.fixture
def own() -> Iterator[Postgres]:
    """A server that may be hurt."""
    with postgres() as running:
        yield running


def test_a_server_that_goes_away(own: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    url = own.new()
    with RecordStore(connect(url)) as store:
        put(store, 1.0)
        put(store, 2.0)
        # It is started anew in time: nothing is lost, nothing twice.
        own.stop()
        again = threading.Timer(1.0, own.start)
        again.start()
        put(store, 3.0)
        again.join()
        assert len(store.all()) == 3
        # A server that is there and silent is given up.
        monkeypatch.setattr(module, "_ANSWER_S", 1.0)
        monkeypatch.setattr(module, "_AWAY_S", 1.0)
        monkeypatch.setattr(connecting, "_CONNECT_S", 2)
        silent = own.suspended()
        for process in silent:
            process.suspend()
        try:
            with pytest.raises(ToolchainError, match="stopped answering and did not come back within 1 s"):
                put(store, 4.0)
        finally:
            for process in silent:
                process.resume()
        # It is gone for good: the error says what is kept.
        own.stop()
        with pytest.raises(ToolchainError, match="the 3 records added so far are stored") as caught:
            put(store, 5.0)
        assert "it continues where it stopped" in caught.value.hint and PASSWORD not in str(caught.value)
    own.start()
    with RecordStore(connect(url)) as store:
        assert {record.best_ms for record in store.all()} - {4.0} == {1.0, 2.0, 3.0}


def test_a_command_that_begins_while_the_server_is_away_waits_and_says_so(own: Postgres) -> None:
    url = own.new()
    connect(url).close()
    own.stop()
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        if len(told) == 1:
            threading.Thread(target=own.start).start()  # it recovers first, and says that it is starting up

    with RecordStore(connect(url, tell)) as store:
        put(store, 1.0)
        own.stop()
        told.clear()
        put(store, 2.0)
        assert len(told) == 2 and "went away" not in told[0]
        assert len(store.all()) == 2
    name = store.name
    assert told[0].startswith(f"the records database {name} cannot be reached: ")
    assert told[0].endswith("waiting for it, 60 s at most")
    assert told[1] == f"the records database {name} answers again"
    assert PASSWORD not in " ".join(told)


def test_doctor_does_not_wait(own: Postgres) -> None:
    url, told = own.url(), list[str]()
    own.stop()
    with pytest.raises(ToolchainError, match="cannot be reached"):
        connect(url, told.append, away_s=0)
    assert told == []


def test_a_server_that_is_silent_is_told_of(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    database = connect(postgres_url, told.append)
    database.rows("SELECT 1")
    assert told == []
    monkeypatch.setattr(module, "_SLOW_S", 0.1)
    database.rows("SELECT pg_sleep(1)")
    database.close()
    (text,) = told
    assert text.startswith(f"the records database {database.name} has not answered for ")
    assert text.endswith("waiting, 300 s at most")


def test_indexes_answer_what_commands_ask(postgres_url: str) -> None:
    url = postgres_url.replace("options=", "options=-cenable_seqscan%3Doff%20-cenable_bitmapscan%3Doff%20")
    watched = Watched(connect(url), "EXPLAIN")
    with RecordStore(watched) as store:
        fill(store)
        ask_everything(store)
    plans = "\n".join(watched.plans)
    assert "Seq Scan on records" not in plans
    first, *_others = watched.plans
    for index in ("by_rank", "refutations"):
        assert f"Scan using {index} on records" in first
    assert "Sort Key: groups.workload" in first and first.count("Sort Key") == 1
    assert "using by_created" in plans and "using by_run" in plans


def test_tables_from_before_get_the_indexes(postgres_server: Postgres, postgres_url: str) -> None:
    connect(postgres_url).close()
    for name in INDEXES:
        postgres_server.sql(f"DROP INDEX {name}", postgres_url)
    postgres_server.sql("CREATE INDEX by_key ON records (workload)", postgres_url)
    told: list[str] = []
    for _ in range(2):
        connect(postgres_url, told.append).close()
    assert len(told) == 1 and "creating indexes in" in told[0]
    schema = postgres_url.rpartition("%3D")[2]
    found = postgres_server.sql(f"SELECT indexname FROM pg_indexes WHERE schemaname = '{schema}'")  # noqa: S608
    assert {name for (name,) in found} - {"records_pkey", "functions_pkey"} == set(INDEXES)


def test_tables_from_before_get_the_columns_from_their_owner(
    postgres_server: Postgres, postgres_url: str
) -> None:
    with RecordStore(connect(postgres_url)) as store:
        record = put(store, 1.0)
    postgres_server.sql("ALTER TABLE records DROP COLUMN conditions", postgres_url)
    postgres_server.sql(f"CREATE ROLE stranger LOGIN PASSWORD '{PASSWORD}'")
    schema = postgres_url.rpartition("%3D")[2]
    postgres_server.sql(f"GRANT USAGE ON SCHEMA {schema} TO stranger")
    postgres_server.sql("GRANT SELECT ON records, functions, edge_toolchain TO stranger", postgres_url)
    with pytest.raises(UsageError, match="lacks columns that only the owner") as caught:
        connect(postgres_url.replace(USER, "stranger", 1))
    assert "records list" in caught.value.hint
    with RecordStore(connect(postgres_url)) as store:
        known = put(store, 2.0, provenance=replace(PROVENANCE, conditions="{}"))
        assert store.all() == [record, known]


def test_the_socket_and_the_password_file(
    postgres_server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in (
        f"postgresql:///postgres?host={postgres_server.folder}&user={USER}&port={postgres_server.port}",
        f"postgresql://{USER}@{quote(str(postgres_server.folder), safe='')}:{postgres_server.port}/postgres",
    ):
        connect(address).close()
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"127.0.0.1:{postgres_server.port}:postgres:{USER}:{PASSWORD}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    connect(postgres_server.url(password=None)).close()

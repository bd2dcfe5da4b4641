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
from toolchain.records.distill import BuildVariant, distill, repair, used_records
from toolchain.records.exchange import read_records, write_records
from toolchain.records.lookup import lookup
from toolchain.records.postgres import connection
from toolchain.records.postgres import server as module
from toolchain.records.postgres.server import connect
from toolchain.records.store import RecordStore, anything

ROOT = Path(__file__).parents[3]
BUILDS = [build for offer in BACKENDS for build in offer.builds]
pytestmark = pytest.mark.slow  # all of them wait for a server to start


@pytest.fixture
def store(postgres_url: str) -> Iterator[RecordStore]:
    with RecordStore(connect(postgres_url)) as opened:
        yield opened


def test_server_answers_like_the_file(store: RecordStore, tmp_path: Path) -> None:
    with RecordStore(tmp_path / "records.sqlite") as file:
        for target in (store, file):
            at = {"created": "2026-01-01T00:00:00.000+00:00"}
            put(target, 2.0, payload="ü 🦀", **at)
            put(target, 3.0, confirmed=True, **at)
            put(target, 4.0, confirmed=True, digest="later", **at)
            put(
                target,
                1.0,
                provenance=replace(PROVENANCE, modelled=True, temperature_c=None, trial=None),
                **at,
            )
            put(target, 0.0, run_ms=(), failure="timeout", digest="t", **at)
            put(target, 0.0, run_ms=(), failure="upload", digest="u", **at)
            put(target, 5.0, key=replace(KEY, threads=1), run_ms=(4.9999999999999, 5.1), **at)
        assert store.all() == file.all()
        assert store.all(KEY) == file.all(KEY) and len(store.all(KEY)) == 6
        assert store.best(KEY, KINDS) == file.best(KEY, KINDS) == store.all()[2]
        assert store.bests(KEY, KINDS) == file.bests(KEY, KINDS)
        assert store.measured(KEY) == file.measured(KEY)
        assert used_records(store, BUILDS) == used_records(file, BUILDS)
        assert store.functions() == file.functions()
        hit = lookup(store, replace(KEY, cpu="znver4"), KINDS, shipped=None)
        assert hit == lookup(file, replace(KEY, cpu="znver4"), KINDS, shipped=None)
        assert hit is not None and hit.how == "other-cpu-or-threads" and hit.definition == "{}"


def test_export_and_import_between_server_and_file(store: RecordStore, tmp_path: Path) -> None:
    with RecordStore(tmp_path / "records.sqlite") as file:
        put(file, 2.0)
        put(file, 0.0, run_ms=(), failure="build", provenance=replace(PROVENANCE, trial=None, governor=None))
        path = tmp_path / "x.jsonl"
        write_records(path, file.functions(), file.all())
        assert [store.add_new(*read_records(path)) for _ in range(2)] == [2, 0]
        assert store.all() == file.all()
        write_records(path, store.functions(), store.all())
        assert file.add_new(*read_records(path)) == 0


def test_import_is_one_transaction(store: RecordStore) -> None:
    record = put(store, 1.0)
    bad = replace(record, function="nowhere", digest="bad")
    with pytest.raises(ToolchainError, match=r"refused.*foreign key"):
        store.add_new([], [replace(record, digest="good"), bad])
    assert store.all() == [record]


def test_distill_on_the_server(store: RecordStore, postgres_url: str) -> None:
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
def test_unreadable_row_is_skipped_named_and_removed(
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


def test_concurrent_processes_create_the_tables_once(postgres_server: Postgres, postgres_url: str) -> None:
    program = [sys.executable, "-m", "tests.records.postgres.writer", postgres_url, "20"]
    writers = [subprocess.Popen(program, cwd=ROOT, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [writer.wait(timeout=300) for writer in writers] == [0, 0, 0]
    assert postgres_server.sql("SELECT count(*) FROM records", postgres_url) == [(60,)]
    assert postgres_server.sql("SELECT version FROM edge_toolchain", postgres_url) == [(2,)]


def test_concurrent_threads_create_the_tables_once(postgres_url: str) -> None:
    begin = threading.Barrier(8)

    def begun(_number: int) -> int:
        begin.wait()
        with RecordStore(connect(postgres_url)) as store:
            return len(store.all())

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(begun, range(8))) == [0] * 8


def test_killed_writer_loses_no_reported_record(postgres_url: str) -> None:
    program = [sys.executable, "-m", "tests.records.postgres.writer", postgres_url, "100000"]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        lines = [writer.stdout.readline() for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    with RecordStore(connect(postgres_url)) as store:
        assert len(lines) <= len(store.all()) <= len(lines) + 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE edge_toolchain SET version=99", "has schema version 99, this toolchain reads version 2"),
        ("DELETE FROM edge_toolchain", "has schema version none"),
        ("DROP TABLE edge_toolchain", "has a table records that is not ours"),
    ],
)
def test_refuses_foreign_tables_and_other_versions(
    postgres_server: Postgres, postgres_url: str, change: str, says: str
) -> None:
    with RecordStore(connect(postgres_url)) as store:
        put(store, 1.0)
    postgres_server.sql(change, postgres_url)
    with pytest.raises(UsageError, match=says) as caught:
        connect(postgres_url)
    assert PASSWORD not in str(caught.value) and caught.value.hint
    assert postgres_server.sql("SELECT count(*) FROM records", postgres_url) == [(1,)]


def test_refuses_altered_tables(postgres_server: Postgres, postgres_url: str) -> None:
    with RecordStore(connect(postgres_url)) as store:
        put(store, 1.0)
        postgres_server.sql("ALTER TABLE records DROP COLUMN kind", postgres_url)
        with pytest.raises(UsageError, match=r"records in the database .* cannot be read"):
            store.all()


def test_read_only_user_can_read(postgres_server: Postgres, postgres_url: str) -> None:
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
def test_unreachable_servers(
    postgres_server: Postgres,
    change: Callable[[str], str],
    says: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, messages = postgres_server.url(), list[str]()
    nobody = "127.0.0.2" in says
    if nobody:
        monkeypatch.setattr(module, "_AWAY_S", 1.0)
    with pytest.raises(ToolchainError, match=says) as caught:
        connect(change(url), messages.append)
    assert len(messages) == nobody, "who refuses is not waited for"
    assert hint in caught.value.hint
    assert PASSWORD not in str(caught.value) and quote(PASSWORD, safe="") not in str(caught.value)


def test_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingError) as caught:
        connect(f"postgresql://u:{quote(PASSWORD, safe='')}@db/x")
    assert "edge-toolchain[postgres]" in caught.value.hint and PASSWORD not in str(caught.value)


def test_broken_connection_is_renewed(postgres_server: Postgres, postgres_url: str) -> None:
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name='edge-toolchain'"
    with RecordStore(connect(postgres_url)) as store:
        put(store, 1.0)
        for ms in (2.0, 3.0):
            postgres_server.sql(others)
            put(store, ms)
        postgres_server.sql(others)
        assert [record.best_ms for record in store.all()] == [1.0, 2.0, 3.0]


@pytest.fixture
def private_server() -> Iterator[Postgres]:
    """A server that may be hurt."""
    with postgres() as running:
        yield running


def test_server_that_goes_away_is_waited_for(
    private_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = private_server.new()
    with RecordStore(connect(url)) as store:
        put(store, 1.0)
        put(store, 2.0)
        # It is started anew in time: nothing is lost, nothing twice.
        private_server.stop()
        again = threading.Timer(1.0, private_server.start)
        again.start()
        put(store, 3.0)
        again.join()
        assert len(store.all()) == 3
        # A server that is there and silent is given up.
        monkeypatch.setattr(module, "_ANSWER_S", 1.0)
        monkeypatch.setattr(module, "_AWAY_S", 1.0)
        monkeypatch.setattr(connection, "_CONNECT_S", 2)
        silent = private_server.suspended()
        for process in silent:
            process.suspend()
        try:
            with pytest.raises(ToolchainError, match="stopped answering and did not come back within 1 s"):
                put(store, 4.0)
        finally:
            for process in silent:
                process.resume()
        # It is gone for good: the error says what is kept.
        private_server.stop()
        with pytest.raises(ToolchainError, match="the 3 records added so far are stored") as caught:
            put(store, 5.0)
        assert "it continues where it stopped" in caught.value.hint and PASSWORD not in str(caught.value)
    private_server.start()
    with RecordStore(connect(url)) as store:
        assert {record.best_ms for record in store.all()} - {4.0} == {1.0, 2.0, 3.0}


def test_command_waits_for_a_restarting_server(private_server: Postgres) -> None:
    url = private_server.new()
    connect(url).close()
    private_server.stop()
    messages: list[str] = []

    def tell(text: str) -> None:
        messages.append(text)
        if len(messages) == 1:
            threading.Thread(
                target=private_server.start
            ).start()  # it recovers first, and says that it is starting up

    with RecordStore(connect(url, tell)) as store:
        put(store, 1.0)
        private_server.stop()
        messages.clear()
        put(store, 2.0)
        assert len(messages) == 2 and "went away" not in messages[0]
        assert len(store.all()) == 2
    name = store.name
    assert messages[0].startswith(f"the records database {name} cannot be reached: ")
    assert messages[0].endswith("waiting for it, 60 s at most")
    assert messages[1] == f"the records database {name} answers again"
    assert PASSWORD not in " ".join(messages)


def test_doctor_does_not_wait(private_server: Postgres) -> None:
    url, messages = private_server.url(), list[str]()
    private_server.stop()
    with pytest.raises(ToolchainError, match="cannot be reached"):
        connect(url, messages.append, away_s=0)
    assert messages == []


def test_slow_answer_is_reported(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    database = connect(postgres_url, messages.append)
    database.rows("SELECT 1")
    assert messages == []
    monkeypatch.setattr(module, "_SLOW_S", 0.1)
    database.rows("SELECT pg_sleep(1)")
    database.close()
    (text,) = messages
    assert text.startswith(f"the records database {database.name} has not answered for ")
    assert text.endswith("waiting, 300 s at most")


def test_queries_use_the_indexes(postgres_url: str) -> None:
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


def test_older_tables_get_the_indexes(postgres_server: Postgres, postgres_url: str) -> None:
    connect(postgres_url).close()
    for name in INDEXES:
        postgres_server.sql(f"DROP INDEX {name}", postgres_url)
    postgres_server.sql("CREATE INDEX by_key ON records (workload)", postgres_url)
    messages: list[str] = []
    for _ in range(2):
        connect(postgres_url, messages.append).close()
    assert len(messages) == 1 and "creating indexes in" in messages[0]
    schema = postgres_url.rpartition("%3D")[2]
    index_rows = postgres_server.sql(f"SELECT indexname FROM pg_indexes WHERE schemaname = '{schema}'")  # noqa: S608
    assert {name for (name,) in index_rows} - {"records_pkey", "functions_pkey"} == set(INDEXES)


def test_older_tables_get_new_columns_from_their_owner(postgres_server: Postgres, postgres_url: str) -> None:
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


def test_unix_socket_and_password_file(
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

"""Records on a PostgreSQL server: its tables, and the statements on them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.records.database import (
    ADDED,
    DROP_SUPERSEDED,
    INDEXES,
    VERSION,
    ConnectionRenewedError,
    DatabaseGoneError,
    Notify,
    Value,
    notify_nobody,
    tables,
)
from toolchain.records.postgres.connection import (
    Address,
    connect_within,
    explain,
    is_broken,
    one_line,
    parse_address,
)

if TYPE_CHECKING:
    from psycopg import Connection


# The tables, and their version.

_LOCK = 0x45444745  # "EDGE"
_MARK = "edge_toolchain"
"""The table that marks a database as ours and holds the schema version."""


def prepare_tables(db: Connection[Any], name: str, notify: Notify) -> None:
    """Check the tables; create missing tables, and missing indexes if the user owns the tables.

    Parameters
    ----------
    notify
        Called before a step that takes long.

    Raises
    ------
    UsageError
        The database has foreign tables of these names, or another schema version.
    """
    if not _exists(db, _MARK):
        with db.transaction():
            _take_turns(db)
            if not _exists(db, _MARK):
                _create(db, name)
                return
    _check_version(db, name)
    _add_columns(db, name)
    if _lacks_indexes(db):
        notify(
            f"creating indexes in the records database {name}, once: with many records that may take a minute"
        )
        with db.transaction():
            _take_turns(db)
            for statement in (*INDEXES.values(), DROP_SUPERSEDED):
                db.execute(statement.encode())


def _take_turns(db: Connection[Any]) -> None:
    """Wait until no other process creates tables or indexes, and keep others out."""
    db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def _add_columns(db: Connection[Any], name: str) -> None:
    """Add the columns that a database of an earlier program lacks."""
    from psycopg.errors import InsufficientPrivilege

    if not _missing_columns(db):
        return
    try:
        with db.transaction():
            _take_turns(db)
            for column in _missing_columns(db):
                db.execute(f"ALTER TABLE records ADD COLUMN {column} {ADDED[column]}".encode())
    except InsufficientPrivilege as error:
        raise UsageError(
            f"the records database {name} lacks columns that only the owner of its tables may add: "
            f"{', '.join(_missing_columns(db))}",
            "let its owner open it once with this version: `toolchain records list`",
        ) from error


def _missing_columns(db: Connection[Any]) -> list[str]:
    columns = db.execute(
        "SELECT attname::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
        " JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE pg_class.relname = 'records' AND nspname = ANY (current_schemas(false)) AND attnum > 0"
        " AND NOT attisdropped"
    ).fetchall()
    return [name for name in ADDED if (name,) not in columns]


def _lacks_indexes(db: Connection[Any]) -> bool:
    """Whether indexes are missing that this user may create: only the owner of a table may."""
    row = db.execute(
        "SELECT pg_has_role(pg_class.relowner, 'USAGE'), ARRAY(SELECT named.relname::text FROM pg_index"
        " JOIN pg_class AS named ON named.oid = indexrelid WHERE indrelid = pg_class.oid)"
        " FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE pg_class.relname = 'records' AND nspname = ANY (current_schemas(false))"
    ).fetchone()
    return row is not None and row[0] and not INDEXES.keys() <= set(row[1])


def _create(db: Connection[Any], name: str) -> None:
    for table in ("records", "functions"):
        if _exists(db, table):
            raise UsageError(
                f"the database {name} has a table {table} that is not ours",
                "name another database in records_url, one for records alone",
            )
    own_number = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    for statement in tables(identity=own_number, integer="BIGINT", real="DOUBLE PRECISION"):
        db.execute(statement.encode())
    db.execute(f"CREATE TABLE {_MARK} (version BIGINT NOT NULL)".encode())
    db.execute(f"INSERT INTO {_MARK} VALUES (%s)".encode(), (VERSION,))  # noqa: S608  # our own constant


def _check_version(db: Connection[Any], name: str) -> None:
    rows = db.execute(f"SELECT version FROM {_MARK}".encode()).fetchall()  # noqa: S608
    versions = [row[0] for row in rows]
    if versions == [VERSION]:
        return
    stored = ", ".join(map(str, versions)) or "none"
    newer = versions and versions[0] > VERSION
    raise UsageError(
        f"the database {name} has schema version {stored}, this toolchain reads version {VERSION}",
        "use the newer toolchain that made it" if newer else "name another database, or restore a backup",
    )


def _exists(db: Connection[Any], table: str) -> bool:
    # Not to_regclass: under our lock it may still answer from before.
    result = db.execute(
        "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE relname = %s AND nspname = ANY (current_schemas(false))",
        (table,),
    )
    return result.fetchone() is not None


_ANSWER_S = 300.0  # for all rows of a large store over a slow network
_AWAY_S = 60.0  # long enough for a restart of the server during a run
_SLOW_S = 10.0  # without an answer, until the user is told
Given = TypeVar("Given")


def connect(url: str, notify: Notify = notify_nobody, *, away_s: float | None = None) -> PostgresServer:
    """Connect to the database at a URL; create missing tables.

    Parameters
    ----------
    notify
        Called when the server must be waited for.
    away_s
        How long to wait for a server that does not answer; None: as long as for one that went away.

    Raises
    ------
    UsageError
        The URL is malformed, or the database has foreign tables or another schema version.
    MissingError
        The driver is not installed.
    ToolchainError
        The server does not answer or refuses the connection.
    """
    address = parse_address(url)
    try:
        import psycopg
    except ImportError as error:
        raise MissingError(
            f"the records at {address.name} need the driver psycopg, which is not installed: {error}",
            "pip install 'edge-toolchain[postgres]'",
        ) from error
    del psycopg
    db = connect_within(address, notify, _AWAY_S if away_s is None else away_s)
    server = PostgresServer(address, notify, db)
    try:
        server.prepare()
    except BaseException:
        server.close()
        raise
    return server


class PostgresServer:
    """A `Database` on a PostgreSQL server. It connects again when the connection breaks."""

    def __init__(self, address: Address, notify: Notify, db: Connection[Any]) -> None:
        self.name = address.name
        self._address, self._notify, self._db = address, notify, db

    def prepare(self) -> None:
        """Create missing tables; refuse foreign tables and those of another schema version."""
        with self._explained():
            prepare_tables(self._db, self.name, self._notify)

    def rows(self, query: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        try:
            return self._fetched(query, values)
        except ConnectionRenewedError:
            return self._fetched(query, values)

    def run(self, statement: str, values: Sequence[Value] = ()) -> int:
        """Execute a statement and return how many rows it changed."""
        with self._explained():
            return int(self._db.execute(_adapted(statement), values).rowcount)

    def run_for_each(self, statement: str, rows: Iterable[Sequence[Value]]) -> int:
        """Execute a statement once for each row of values; return how many rows were changed."""
        with self._explained(), self._db.cursor() as cursor:
            cursor.executemany(_adapted(statement), rows)
            return max(int(cursor.rowcount), 0)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction with exclusive write access."""
        with self._explained(), self._db.transaction():
            self._db.execute("LOCK TABLE records IN SHARE ROW EXCLUSIVE MODE")
            yield

    def compact(self) -> None:
        """Let the server reuse the space of deleted rows."""
        self.run("VACUUM records")

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def unreadable(self, why: str) -> UsageError:
        """Return the error for tables with content that this toolchain cannot have written."""
        return UsageError(
            f"the records in the database {self.name} cannot be read: {why}",
            "restore a backup of it, or name another database in records_url",
        )

    def _fetched(self, query: str, values: Sequence[Value]) -> list[tuple[Any, ...]]:
        with self._explained():
            return list(self._db.execute(_adapted(query), values).fetchall())

    @contextmanager
    def _explained(self) -> Iterator[None]:
        import psycopg

        try:
            with _answer_within(self._db, _ANSWER_S), _after(_SLOW_S, self._notify, self._slow()):
                yield
        except psycopg.Error as error:
            if is_broken(error, self._db):
                self._renew(error)
            raise explain(error, self.name, self.unreadable, self._address.password) from error

    def _slow(self) -> str:
        return (
            f"the records database {self.name} has not answered for {_SLOW_S:.0f} s; waiting, "
            f"{_ANSWER_S:.0f} s at most"
        )

    def _renew(self, error: Exception) -> None:
        """Connect again; always raise an error that says whether that succeeded."""
        self._db.close()
        message = one_line(error, self._address.password)
        try:
            self._db = connect_within(self._address, self._notify, _AWAY_S)
        except ToolchainError as gone:
            raise DatabaseGoneError(
                f"the records database {self.name} stopped answering and did not come back within "
                f"{_AWAY_S:.0f} s: {message}",
                "start the server, then run the same command again: it continues where it stopped",
            ) from gone
        raise ConnectionRenewedError(
            f"the connection to the records database {self.name} broke: {message}",
            "run the same command again",
        ) from error


def _adapted(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


@contextmanager
def _answer_within(db: Connection[Any], seconds: float) -> Iterator[None]:
    """Close the connection if the server does not answer in time: libpq itself waits forever."""
    with _after(seconds, _hang_up, db):
        yield


@contextmanager
def _after(seconds: float, act: Callable[[Given], object], value: Given) -> Iterator[None]:
    """Call `act(value)` if the block takes longer than this."""
    timer = threading.Timer(seconds, act, (value,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(db: Connection[Any]) -> None:
    with suppress(Exception), socket.socket(fileno=os.dup(db.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)

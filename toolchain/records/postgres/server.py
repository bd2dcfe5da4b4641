"""Records on a PostgreSQL server."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.records.columns import Value
from toolchain.records.database import ConnectionRenewedError, DatabaseGoneError, Tell, tell_nobody
from toolchain.records.postgres.address import Address, parse_address
from toolchain.records.postgres.connecting import connect_within
from toolchain.records.postgres.refusals import explain, is_broken, one_line
from toolchain.records.postgres.schema import prepare_tables

if TYPE_CHECKING:
    from psycopg import Connection

_ANSWER_S = 300.0  # for all rows of a large store over a slow network
_AWAY_S = 60.0  # long enough for a restart of the server during a run
_SLOW_S = 10.0  # without an answer, until the user is told
Given = TypeVar("Given")


def connect(url: str, tell: Tell = tell_nobody, *, away_s: float | None = None) -> PostgresServer:
    """Connect to the database at a URL; create missing tables.

    Parameters
    ----------
    tell
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
    db = connect_within(address, tell, _AWAY_S if away_s is None else away_s)
    server = PostgresServer(address, tell, db)
    try:
        server.prepare()
    except BaseException:
        server.close()
        raise
    return server


class PostgresServer:
    """A `Database` on a PostgreSQL server. It connects again when the connection breaks."""

    def __init__(self, address: Address, tell: Tell, db: Connection[Any]) -> None:
        self.name = address.name
        self._address, self._tell, self._db = address, tell, db

    def prepare(self) -> None:
        """Create missing tables; refuse foreign tables and those of another schema version."""
        with self._explained():
            prepare_tables(self._db, self.name, self._tell)

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
            with _answer_within(self._db, _ANSWER_S), _after(_SLOW_S, self._tell, self._slow()):
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
        said = one_line(error, self._address.password)
        try:
            self._db = connect_within(self._address, self._tell, _AWAY_S)
        except ToolchainError as gone:
            raise DatabaseGoneError(
                f"the records database {self.name} stopped answering and did not come back within "
                f"{_AWAY_S:.0f} s: {said}",
                "start the server, then run the same command again: it continues where it stopped",
            ) from gone
        raise ConnectionRenewedError(
            f"the connection to the records database {self.name} broke: {said}",
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

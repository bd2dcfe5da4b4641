"""Records on a PostgreSQL server."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.records.columns import Value
from toolchain.records.database import ConnectionRenewedError, DatabaseGoneError, Tell, tell_nobody
from toolchain.records.postgres.address import Address, parse_address
from toolchain.records.postgres.refusals import explain, is_broken, one_line
from toolchain.records.postgres.schema import prepare

if TYPE_CHECKING:
    from psycopg import Connection

_CONNECT_S = 10
_ANSWER_S = 300.0  # for all rows of a large store over a slow network
_LOCK_S = 30  # another process may hold the tables for a whole import
_AWAY_S = 60.0  # long enough for a restart of the server during a run
_AGAIN_S = 0.5
_SLOW_S = 10.0  # without an answer, until the user is told
_WHERE = ("host", "hostaddr", "port", "service")  # the parameters that a ping needs
Given = TypeVar("Given")
# TCP keepalive: a dead peer is detected within half a minute.
_SILENCE = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}


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
    return PostgresServer(address, tell, _AWAY_S if away_s is None else away_s)


class PostgresServer:
    """A `Database` on a PostgreSQL server. It connects again when the connection breaks."""

    def __init__(self, address: Address, tell: Tell, away_s: float) -> None:
        self.name = address.name
        self._address, self._tell = address, tell
        self._db = self._connect_within(away_s)
        try:
            with self._explained():
                prepare(self._db, self.name, tell)
        except BaseException:
            self.close()
            raise

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

    def _connect_within(self, seconds: float) -> Connection[Any]:
        """Connect; wait for a server that does not answer yet.

        Raises
        ------
        ToolchainError
            It does not answer in time, or it refuses.
        """
        deadline = time.monotonic() + seconds
        waiting = answered = False
        while True:
            try:
                db = self._connect()
            except ToolchainError as error:
                # A server that answers has refused for good, unless it has started just now: try once more.
                if isinstance(error, UsageError) or answered or time.monotonic() >= deadline:
                    raise
                answered = self._answers()
                if answered:
                    continue
                if not waiting:
                    self._tell(f"{error.message}; waiting for it, {seconds:.0f} s at most")
                waiting = True
                time.sleep(_AGAIN_S)
            else:
                if waiting:
                    self._tell(f"the records database {self.name} answers again")
                return db

    def _answers(self) -> bool:
        """Whether a server accepts connections, even if it refuses this user."""
        from psycopg.conninfo import make_conninfo
        from psycopg.pq import PGconn, Ping

        where = {name: text for name, text in self._address.parameters.items() if name in _WHERE}
        answer = PGconn.ping(make_conninfo("", connect_timeout=_CONNECT_S, **where).encode())
        return bool(answer == Ping.OK)

    def _connect(self) -> Connection[Any]:
        import psycopg

        try:
            db = psycopg.connect(
                **{**_SILENCE, **self._address.parameters},  # libpq's parameters are strings
                password=self._address.password,
                autocommit=True,
                connect_timeout=_CONNECT_S,
                application_name="edge-toolchain",
                client_encoding="utf8",
                prepare_threshold=None,  # a connection pooler would mix up prepared statements
            )
        except psycopg.Error as error:
            raise self._unreachable(error) from error
        try:
            db.execute(f"SET lock_timeout = '{_LOCK_S}s'".encode())
        except psycopg.Error as error:
            db.close()
            raise self._unreachable(error) from error
        return db

    def _unreachable(self, error: Exception) -> ToolchainError:
        said = one_line(error, self._address.password)
        hint = (
            "start the server, or correct records_url (TOOLCHAIN_RECORDS_URL); "
            "without it the file in data_dir is used"
        )
        if "password" in said:
            hint = "put HOST:PORT:DATABASE:USER:PASSWORD into ~/.pgpass, a file that only you may read"
        elif "invalid" in said and "option" in said:
            return UsageError(f"records_url: {said}", "leave that parameter out of records_url")
        return ToolchainError(f"the records database {self.name} cannot be reached: {said}", hint)

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
            self._db = self._connect_within(_AWAY_S)
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

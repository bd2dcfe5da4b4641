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
from toolchain.foreign import shortened
from toolchain.records.database import (
    ConnectionRenewedError,
    DatabaseGoneError,
    Tell,
    UnknownFunctionError,
    Value,
    tell_nobody,
)
from toolchain.records.postgres.address import Address, parse_address
from toolchain.records.postgres.schema import prepare_tables

if TYPE_CHECKING:
    from psycopg import Connection, Error


# Converts errors of PostgreSQL to errors with a hint.

_PASSWORD = 4  # letters; a shorter password occurs in ordinary words too
# Codes of PostgreSQL's documentation, appendix A.
_SHUT_DOWN = ("57P01", "57P02", "57P03")
_OTHER_TABLES = ("42P01", "42703", "42804", "42883")
_NO_SUCH_FUNCTION = "23503"
_HINTS = {
    "42501": "its owner can let you: GRANT SELECT, INSERT, UPDATE, DELETE ON records, functions TO you, and "
    "GRANT SELECT ON edge_toolchain TO you; the first command of a user who may create tables creates them",
    "25006": "name the primary server, not a read-only replica",
    "53100": "free some space on the server, then run the same command again",
    "55P03": "wait for the other command that has locked the tables, then run the same command again",
    "57014": "run the same command again",
}


def explain(
    error: Error, name: str, unreadable: Callable[[str], UsageError], password: str | None
) -> ToolchainError:
    """Convert an error of the driver to one whose hint says what to type."""
    code, said = error.sqlstate or "", one_line(error, password)
    if code in _OTHER_TABLES:
        return unreadable(said)
    refused = ToolchainError(
        f"the records database {name} refused: {said}; nothing was left half-written", _HINTS.get(code, "")
    )
    if code == _NO_SUCH_FUNCTION:
        return UnknownFunctionError(refused.message, refused.hint)
    return refused


def is_broken(error: Error, db: Connection[Any]) -> bool:
    """Whether the connection cannot be used any longer."""
    return db.closed or error.sqlstate in _SHUT_DOWN


def one_line(error: Exception, password: str | None) -> str:
    """Return the message of libpq or the server on one line, with the password removed.

    Neither quotes passwords today; this is a precaution. A very short password is not searched for.
    """
    said = " ".join(str(error).split()) or type(error).__name__
    return shortened(said.replace(password, "…") if password and len(password) >= _PASSWORD else said)


# Connects to a PostgreSQL server, and waits for one that does not answer yet.

_CONNECT_S = 10
_LOCK_S = 30  # another process may hold the tables for a whole import
_AGAIN_S = 0.5
_WHERE = ("host", "hostaddr", "port", "service")  # the parameters that a ping needs
# TCP keepalive: a dead peer is detected within half a minute.
_SILENCE = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}


def connect_within(address: Address, tell: Tell, seconds: float) -> Connection[Any]:
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
            db = _connect(address)
        except ToolchainError as error:
            # A server that answers has refused for good, unless it has started just now: try once more.
            if isinstance(error, UsageError) or answered or time.monotonic() >= deadline:
                raise
            answered = _answers(address)
            if answered:
                continue
            if not waiting:
                tell(f"{error.message}; waiting for it, {seconds:.0f} s at most")
            waiting = True
            time.sleep(_AGAIN_S)
        else:
            if waiting:
                tell(f"the records database {address.name} answers again")
            return db


def _answers(address: Address) -> bool:
    """Whether a server accepts connections, even if it refuses this user."""
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import PGconn, Ping

    where = {name: text for name, text in address.parameters.items() if name in _WHERE}
    answer = PGconn.ping(make_conninfo("", connect_timeout=_CONNECT_S, **where).encode())
    return bool(answer == Ping.OK)


def _connect(address: Address) -> Connection[Any]:
    import psycopg

    try:
        db = psycopg.connect(
            **{**_SILENCE, **address.parameters},  # libpq's parameters are strings
            password=address.password,
            autocommit=True,
            connect_timeout=_CONNECT_S,
            application_name="edge-toolchain",
            client_encoding="utf8",
            prepare_threshold=None,  # a connection pooler would mix up prepared statements
        )
    except psycopg.Error as error:
        raise _unreachable(address, error) from error
    try:
        db.execute(f"SET lock_timeout = '{_LOCK_S}s'".encode())
    except psycopg.Error as error:
        db.close()
        raise _unreachable(address, error) from error
    return db


def _unreachable(address: Address, error: Exception) -> ToolchainError:
    said = one_line(error, address.password)
    hint = (
        "start the server, or correct records_url (TOOLCHAIN_RECORDS_URL); "
        "without it the file in data_dir is used"
    )
    if "password" in said:
        hint = "put HOST:PORT:DATABASE:USER:PASSWORD into ~/.pgpass, a file that only you may read"
    elif "invalid" in said and "option" in said:
        return UsageError(f"records_url: {said}", "leave that parameter out of records_url")
    return ToolchainError(f"the records database {address.name} cannot be reached: {said}", hint)


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

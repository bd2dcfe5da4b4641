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
_LOCK_S = 30  # another one's import has the tables for itself
_AWAY_S = 60.0  # a server that is started anew ends no run
_AGAIN_S = 0.5
_SLOW_S = 10.0  # of silence, until that is told
_WHERE = ("host", "hostaddr", "port", "service")  # of an address, to see who answers there
Given = TypeVar("Given")
# Of TCP: a peer that is silent is noticed within half a minute.
_SILENCE = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}


def connect(url: str, tell: Tell = tell_nobody, *, away_s: float | None = None) -> PostgresServer:
    """Connect to the database at a URL; make the tables where it has none.

    Parameters
    ----------
    tell
        Called when the server is waited for.
    away_s
        How long a server is waited for that does not answer; None: as long as one that goes away.

    Raises
    ------
    UsageError
        The URL is none, or what is there is not ours or of another version.
    MissingError
        The driver is not installed.
    ToolchainError
        The server does not answer, or refuses.
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
    """See `database.Database`. A connection that breaks is made again."""

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
        """Return what a query finds."""
        try:
            return self._fetched(query, values)
        except ConnectionRenewedError:
            return self._fetched(query, values)

    def run(self, statement: str, values: Sequence[Value] = ()) -> int:
        """Change something; return how many rows were."""
        with self._explained():
            return int(self._db.execute(_adapted(statement), values).rowcount)

    def run_for_each(self, statement: str, rows: Iterable[Sequence[Value]]) -> int:
        """Change something for each of many rows of values; return how many rows were."""
        with self._explained(), self._db.cursor() as cursor:
            cursor.executemany(_adapted(statement), rows)
            return max(int(cursor.rowcount), 0)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do what is done within as a whole, or not at all; nobody else writes meanwhile."""
        with self._explained(), self._db.transaction():
            self._db.execute("LOCK TABLE records IN SHARE ROW EXCLUSIVE MODE")
            yield

    def compact(self) -> None:
        """Let the server use the space of what was deleted."""
        self.run("VACUUM records")

    def close(self) -> None:
        """Let go of the connection."""
        self._db.close()

    def unreadable(self, why: str) -> UsageError:
        """Return what to say of tables that hold something else than we write."""
        return UsageError(
            f"the records in the database {self.name} cannot be read: {why}",
            "put a copy of it back, or name another database in records_url",
        )

    def _fetched(self, query: str, values: Sequence[Value]) -> list[tuple[Any, ...]]:
        with self._explained():
            return list(self._db.execute(_adapted(query), values).fetchall())

    def _connect_within(self, seconds: float) -> Connection[Any]:
        """Connect; a server that does not answer, or that is about to start, is waited for.

        Raises
        ------
        ToolchainError
            It does not answer in this time, or it refuses.
        """
        deadline = time.monotonic() + seconds
        waiting = answered = False
        while True:
            try:
                db = self._connect()
            except ToolchainError as error:
                # What answers refuses for good; but it may have begun to answer just now.
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
                    self._tell(f"the database of records {self.name} answers again")
                return db

    def _answers(self) -> bool:
        """Whether a server is there and takes connections, be it without this user."""
        from psycopg.conninfo import make_conninfo
        from psycopg.pq import PGconn, Ping

        where = {name: text for name, text in self._address.parameters.items() if name in _WHERE}
        answer = PGconn.ping(make_conninfo("", connect_timeout=_CONNECT_S, **where).encode())
        return bool(answer == Ping.OK)

    def _connect(self) -> Connection[Any]:
        import psycopg

        try:
            db = psycopg.connect(
                **{**_SILENCE, **self._address.parameters},  # libpq's own are texts
                password=self._address.password,
                autocommit=True,
                connect_timeout=_CONNECT_S,
                application_name="edge-toolchain",
                client_encoding="utf8",
                prepare_threshold=None,  # a pool in between would mix up prepared statements
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
        return ToolchainError(f"the database of records {self.name} cannot be reached: {said}", hint)

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
            f"the database of records {self.name} has not answered for {_SLOW_S:.0f} s; waiting, "
            f"{_ANSWER_S:.0f} s at most"
        )

    def _renew(self, error: Exception) -> None:
        """Connect again; raise what has become of it."""
        self._db.close()
        said = one_line(error, self._address.password)
        try:
            self._db = self._connect_within(_AWAY_S)
        except ToolchainError as gone:
            raise DatabaseGoneError(
                f"the database of records {self.name} went away and did not come back within "
                f"{_AWAY_S:.0f} s: {said}",
                "start the server, then run the same command again: it goes on from there",
            ) from gone
        raise ConnectionRenewedError(
            f"the connection to the database of records {self.name} broke: {said}",
            "run the same command again",
        ) from error


def _adapted(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


@contextmanager
def _answer_within(db: Connection[Any], seconds: float) -> Iterator[None]:
    """End the connection where the server stays silent: libpq itself waits for ever."""
    with _after(seconds, _hang_up, db):
        yield


@contextmanager
def _after(seconds: float, act: Callable[[Given], object], value: Given) -> Iterator[None]:
    """Call something where the block takes longer than this."""
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

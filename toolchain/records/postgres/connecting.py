"""Connects to a PostgreSQL server, and waits for one that does not answer yet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from toolchain.errors import ToolchainError, UsageError
from toolchain.records.database import Tell
from toolchain.records.postgres.address import Address
from toolchain.records.postgres.refusals import one_line

if TYPE_CHECKING:
    from psycopg import Connection

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

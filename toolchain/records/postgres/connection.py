"""Connections to a PostgreSQL server: the address in `records_url`, errors of the driver, and waiting.

No message here quotes the address as it is, since it may contain a password.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import shortened
from toolchain.records.database import Notify, UnknownFunctionError

if TYPE_CHECKING:
    from psycopg import Connection, Error

_SCHEMES = ("postgresql", "postgres")
_ADDRESS_HINT = "write it as postgresql://USER@HOST/DATABASE (records_url, or TOOLCHAIN_RECORDS_URL)"


@dataclass(frozen=True)
class Address:
    """Where a database is and as which user to connect.

    Attributes
    ----------
    parameters
        libpq's connection parameters by name, without the password.
    password
        None if libpq is to look into `~/.pgpass`.
    """

    parameters: dict[str, str]
    password: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Name for messages, without the password."""
        user, host, port = (self.parameters.get(name, "") for name in ("user", "host", "port"))
        where = f"{user}@{host}" if user else host
        return f"postgresql://{where}{':' if port else ''}{port}/{self.parameters.get('dbname', '')}"


def shown_address(url: str) -> str:
    """Return the URL with its password removed; safe for malformed input."""
    try:
        return parse_address(url).name
    except UsageError as error:
        return f"… ({error.message})"


def parse_address(url: str) -> Address:
    """Parse a URL. Parts that it leaves out come from libpq's own files and environment variables.

    Other parameters of libpq may follow after a question mark, such as `sslmode=verify-full` or, for the
    folder of a Unix socket, `host=/run/postgresql`.

    Raises
    ------
    UsageError
        It is not a URL of one PostgreSQL server.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        more = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:  # its message may quote what stands before an @
        raise UsageError("records_url is not the address of a PostgreSQL server", _ADDRESS_HINT) from error
    if parts.scheme not in _SCHEMES:
        raise UsageError("records_url is not the address of a PostgreSQL server", _ADDRESS_HINT)
    if "@" in parts.path or "@" in parts.query or parts.fragment:
        raise UsageError(
            "records_url has an unescaped @, /, ? or # in a name or password",
            "write them as %40 %2F %3F %23, or keep the password in ~/.pgpass",
        )
    password = unquote(parts.password) if parts.password is not None else more.pop("password", None)
    host = parts.netloc.rpartition("@")[2].removesuffix(f":{port}").removesuffix(":").strip("[]")
    parameters = {
        "user": unquote(parts.username or ""),
        "host": unquote(host),  # not lower-cased: it may be the folder of a Unix socket
        "port": "" if port is None else str(port),
        "dbname": unquote(parts.path.removeprefix("/")),
        **more,
    }
    if any("\0" in text for text in (*parameters.values(), password or "")):
        raise UsageError("records_url contains a NUL character", _ADDRESS_HINT)
    return Address({name: text for name, text in parameters.items() if text}, password or None)


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
    code, message = error.sqlstate or "", one_line(error, password)
    if code in _OTHER_TABLES:
        return unreadable(message)
    refused = ToolchainError(
        f"the records database {name} refused: {message}; nothing was left half-written", _HINTS.get(code, "")
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
    message = " ".join(str(error).split()) or type(error).__name__
    return shortened(message.replace(password, "…") if password and len(password) >= _PASSWORD else message)


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


def connect_within(address: Address, notify: Notify, seconds: float) -> Connection[Any]:
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
                notify(f"{error.message}; waiting for it, {seconds:.0f} s at most")
            waiting = True
            time.sleep(_AGAIN_S)
        else:
            if waiting:
                notify(f"the records database {address.name} answers again")
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
    message = one_line(error, address.password)
    hint = (
        "start the server, or correct records_url (TOOLCHAIN_RECORDS_URL); "
        "without it the file in data_dir is used"
    )
    if "password" in message:
        hint = "put HOST:PORT:DATABASE:USER:PASSWORD into ~/.pgpass, a file that only you may read"
    elif "invalid" in message and "option" in message:
        return UsageError(f"records_url: {message}", "leave that parameter out of records_url")
    return ToolchainError(f"the records database {address.name} cannot be reached: {message}", hint)

"""The database address in `records_url`. No message here quotes it, since it may contain a password."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from toolchain.errors import UsageError

_SCHEMES = ("postgresql", "postgres")
_HINT = "write it as postgresql://USER@HOST/DATABASE (records_url, or TOOLCHAIN_RECORDS_URL)"


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
        raise UsageError("records_url is not the address of a PostgreSQL server", _HINT) from error
    if parts.scheme not in _SCHEMES:
        raise UsageError("records_url is not the address of a PostgreSQL server", _HINT)
    if "@" in parts.path or "@" in parts.query or parts.fragment:
        raise UsageError(
            "records_url has an unescaped @, /, ? or # in a name or password",
            "write them as %40 %2F %3F %23, or keep the password in ~/.pgpass",
        )
    password = unquote(parts.password) if parts.password is not None else more.pop("password", None)
    host = parts.netloc.rpartition("@")[2].removesuffix(f":{port}").removesuffix(":").strip("[]")
    said = {
        "user": unquote(parts.username or ""),
        "host": unquote(host),  # not lower-cased: it may be the folder of a Unix socket
        "port": "" if port is None else str(port),
        "dbname": unquote(parts.path.removeprefix("/")),
        **more,
    }
    if any("\0" in text for text in (*said.values(), password or "")):
        raise UsageError("records_url contains a NUL character", _HINT)
    return Address({name: text for name, text in said.items() if text}, password or None)

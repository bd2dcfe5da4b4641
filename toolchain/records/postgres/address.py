"""The address of a database, as `records_url` has it. No message here repeats it: it may hold a password."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from toolchain.errors import UsageError

_SCHEMES = ("postgresql", "postgres")
_HINT = "write it as postgresql://USER@HOST/DATABASE (records_url, or TOOLCHAIN_RECORDS_URL)"


@dataclass(frozen=True)
class Address:
    """Where a database is and who asks.

    Attributes
    ----------
    parameters
        For libpq, by its names, without the password.
    password
        None: libpq looks into `~/.pgpass`.
    """

    parameters: dict[str, str]
    password: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """What people know it by."""
        user, host, port = (self.parameters.get(name, "") for name in ("user", "host", "port"))
        where = f"{user}@{host}" if user else host
        return f"postgresql://{where}{':' if port else ''}{port}/{self.parameters.get('dbname', '')}"


def shown_address(url: str) -> str:
    """Return what may be shown of a URL, be it one or not."""
    try:
        return parse_address(url).name
    except UsageError as error:
        return f"… ({error.message})"


def parse_address(url: str) -> Address:
    """Return what a URL says; what it leaves out, libpq takes from its own files and variables.

    Other parameters of libpq may follow after a question mark, such as `sslmode=verify-full` or, for the
    folder of a Unix socket, `host=/run/postgresql`.

    Raises
    ------
    UsageError
        It is none of PostgreSQL, or of several servers.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        more = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:  # its message may quote what stands before an @
        raise UsageError("records_url is no address of a PostgreSQL server", _HINT) from error
    if parts.scheme not in _SCHEMES:
        raise UsageError("records_url is no address of a PostgreSQL server", _HINT)
    if "@" in parts.path or "@" in parts.query or parts.fragment:
        raise UsageError(
            "records_url holds one of @ / ? # where its parts end",
            "write them in names and passwords as %40 %2F %3F %23, or keep the password in ~/.pgpass",
        )
    password = unquote(parts.password) if parts.password is not None else more.pop("password", None)
    host = parts.netloc.rpartition("@")[2].removesuffix(f":{port}").removesuffix(":").strip("[]")
    said = {
        "user": unquote(parts.username or ""),
        "host": unquote(host),  # as it is written: it may be the folder of a socket
        "port": "" if port is None else str(port),
        "dbname": unquote(parts.path.removeprefix("/")),
        **more,
    }
    if any("\0" in text for text in (*said.values(), password or "")):
        raise UsageError("records_url holds a NUL", _HINT)
    return Address({name: text for name, text in said.items() if text}, password or None)

"""Converts errors of PostgreSQL to errors with a hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import shortened
from toolchain.records.database import UnknownFunctionError

if TYPE_CHECKING:
    from psycopg import Connection, Error

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

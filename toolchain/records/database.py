"""What the store of records asks of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from toolchain.errors import ToolchainError, UsageError
from toolchain.records.columns import Value

Tell = Callable[[str], None]
"""Called with a sentence for the user about a wait: what it is for, and how long it may take."""


def tell_nobody(_text: str) -> None:
    """Keep it to oneself."""


class ConnectionRenewedError(ToolchainError):
    """The connection broke and there is a new one: what was asked may have been done, or not."""


class DatabaseGoneError(ToolchainError):
    """The database no longer answers."""


class UnknownFunctionError(ToolchainError):
    """A record is of a function that is not there."""


class Database(Protocol):
    """A connection to the tables. One thread at a time uses it.

    Statements are SQL that every database takes, with `?` for values. Every method raises a
    ToolchainError in words of its own for whatever the database refuses.
    """

    name: str
    """For people; no password is in it."""

    def rows(self, query: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""

    def run(self, statement: str, values: Sequence[Value] = ()) -> int:
        """Change something; return how many rows were. It is durable when this returns.

        Raises
        ------
        ConnectionRenewedError
            Whether it was done is not known.
        UnknownFunctionError
            A record's function is not there.
        """

    def run_for_each(self, statement: str, rows: Iterable[Sequence[Value]]) -> int:
        """Change something for each of many rows of values; return how many rows were, of all."""

    def transaction(self) -> AbstractContextManager[None]:
        """Do what is done within as a whole, or not at all; nobody else writes meanwhile."""

    def compact(self) -> None:
        """Give back the space of what was deleted."""

    def unreadable(self, why: str) -> UsageError:
        """Return what to say of a row that is not what we write."""

    def close(self) -> None:
        """Let go of it."""

"""The interface between the store of records and a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from toolchain.errors import ToolchainError, UsageError
from toolchain.records.columns import Value

Tell = Callable[[str], None]
"""Called with a sentence for the user about a wait: what it is for, and how long it may take."""


def tell_nobody(_text: str) -> None:
    """Ignore the sentence."""


class ConnectionRenewedError(ToolchainError):
    """The connection broke and was made again: the last statement may or may not have taken effect."""


class DatabaseGoneError(ToolchainError):
    """The database no longer answers."""


class UnknownFunctionError(ToolchainError):
    """A record refers to a function that is not stored."""


class Database(Protocol):
    """A connection to the tables, to be used by one thread at a time.

    Statements are SQL that every database understands, with `?` for values. When the database refuses, every
    method raises a ToolchainError that says why.
    """

    name: str
    """Name for messages, without the password."""

    def rows(self, query: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

    def run(self, statement: str, values: Sequence[Value] = ()) -> int:
        """Execute a statement and return how many rows it changed. The change is durable on return.

        Raises
        ------
        ConnectionRenewedError
            It is unknown whether the statement took effect.
        UnknownFunctionError
            A record's function is not stored.
        """

    def run_for_each(self, statement: str, rows: Iterable[Sequence[Value]]) -> int:
        """Execute a statement once for each row of values; return how many rows were changed in total."""

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block as one transaction with exclusive write access."""

    def compact(self) -> None:
        """Release the space of deleted rows."""

    def unreadable(self, why: str) -> UsageError:
        """Return the error for a row that this toolchain cannot have written."""

    def close(self) -> None:
        """Close the connection."""

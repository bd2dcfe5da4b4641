"""Records in one SQLite file.

Several processes may read and write at once.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolchain.errors import ToolchainError, UsageError
from toolchain.files.atomic import cannot_write, make_folder
from toolchain.records.columns import Value
from toolchain.records.database import Tell, UnknownFunctionError, tell_nobody
from toolchain.records.sqlite import schema

FILE_NAME = "records.sqlite"
_BUSY_S = 30.0
# SQLITE_ERROR: our statements do not fit the tables, so the tables are others.
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_ERROR")
_REFUSED = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_READONLY": errno.EACCES, "SQLITE_PERM": errno.EACCES}
_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")


class SqliteFile:
    """A `Database` in an SQLite file.

    Parameters
    ----------
    path
        The file, created if it is missing; None for a database in memory.
    read_only
        Open a file that nobody writes; it must exist.
    tell
        Called before a step that takes long.

    Raises
    ------
    UsageError
        The file is damaged, foreign, or written by a newer version of this tool.
    ToolchainError
        The file system refused.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False, tell: Tell = tell_nobody) -> None:
        self.path = path or Path(":memory:")
        self.name = str(self.path)
        with self._explained():
            if path is None:
                self._db = schema.connect_memory()
                return
            if not read_only:
                make_folder(path.parent)
                if path.parent.is_dir() and not path.exists():
                    path.touch(mode=0o600)
            self._db = schema.connect(path, read_only=read_only, wait_s=_BUSY_S, tell=tell)

    def rows(self, query: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._explained():
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.OperationalError as error:
                if not str(error).startswith("Could not decode"):
                    raise
            # A text that is not UTF-8 must make only its own row unreadable, not the whole query.
            self._db.text_factory = _text  # slower than sqlite3's own
            return self._db.execute(query, values).fetchall()

    def run(self, statement: str, values: Sequence[Value] = ()) -> int:
        """Execute a statement and return how many rows it changed."""
        with self._explained():
            return self._db.execute(statement, values).rowcount

    def run_for_each(self, statement: str, rows: Iterable[Sequence[Value]]) -> int:
        """Execute a statement once for each row of values; return how many rows were changed."""
        with self._explained():
            return self._db.executemany(statement, rows).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction with exclusive write access."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk has already ended the transaction
                self._db.execute("ROLLBACK")
            raise

    def compact(self) -> None:
        """Shrink the file to the size of its content."""
        self.run("VACUUM")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def unreadable(self, why: str) -> UsageError:
        """Return the error for a file with content that this toolchain cannot have written."""
        return UsageError(
            f"the records in {self.name} cannot be read: {why}",
            f"move the file away, for instance to {self.path.name}.damaged, or restore a backup",
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._explain(error) from error
        except UnicodeError as error:  # SQLite's message quotes a damaged table
            raise self.unreadable("its tables are damaged") from error
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> ToolchainError:
        refused = cannot_write(self.path, error)
        return ToolchainError(
            refused.message, f"{refused.hint}; TOOLCHAIN_DATA_DIR names the folder of records"
        )

    def _explain(self, error: sqlite3.Error) -> ToolchainError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(_DAMAGED):
            return self.unreadable(str(error))
        if name.startswith(_LOCKED):
            return ToolchainError(
                f"{self.name} has been locked by another process for {_BUSY_S:.0f} s",
                "end the other program that writes to it (`fuser` names it), then try again",
            )
        number = next((n for code, n in _REFUSED.items() if name.startswith(code)), 0)
        refused = self._refused(OSError(number, str(error)))
        if name == "SQLITE_CONSTRAINT_FOREIGNKEY":
            return UnknownFunctionError(refused.message, refused.hint)
        return refused


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data

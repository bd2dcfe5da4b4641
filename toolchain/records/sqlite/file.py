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
    """See `database.Database`.

    Parameters
    ----------
    path
        The file, which is created where it is missing; None: in memory.
    read_only
        For a file that nobody writes; it must exist.
    tell
        Called with what takes long.

    Raises
    ------
    UsageError
        The file is damaged, foreign, or of a newer version of this tool.
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
        """Return what a query finds."""
        with self._explained():
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.OperationalError as error:
                if not str(error).startswith("Could not decode"):
                    raise
            # One text that is not Unicode spoils its own row, and not the whole query.
            self._db.text_factory = _text  # slower than sqlite3's own
            return self._db.execute(query, values).fetchall()

    def run(self, statement: str, values: Sequence[Value] = ()) -> int:
        """Change something; return how many rows were."""
        with self._explained():
            return self._db.execute(statement, values).rowcount

    def run_for_each(self, statement: str, rows: Iterable[Sequence[Value]]) -> int:
        """Change something for each of many rows of values; return how many rows were."""
        with self._explained():
            return self._db.executemany(statement, rows).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do what is done within as a whole, or not at all; nobody else writes meanwhile."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk ends it by itself
                self._db.execute("ROLLBACK")
            raise

    def compact(self) -> None:
        """Make the file as small as what is in it."""
        self.run("VACUUM")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def unreadable(self, why: str) -> UsageError:
        """Return what to say of a file that holds something else than we write."""
        return UsageError(
            f"the records in {self.name} cannot be read: {why}",
            f"move the file away, for instance to {self.path.name}.damaged, or put a copy back",
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
            raise cannot_write(self.path, error) from error

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
        refused = cannot_write(self.path, OSError(number, str(error)))
        if name == "SQLITE_CONSTRAINT_FOREIGNKEY":
            return UnknownFunctionError(refused.message, refused.hint)
        return refused


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data

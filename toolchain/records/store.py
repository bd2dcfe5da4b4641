"""One SQLite file with every measured candidate.

Several processes may read and write at once. A record is on the disk when `add` returns.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from toolchain import answers
from toolchain.configuration.settings import data_dir
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.atomic import cannot_write
from toolchain.records import rows, schema
from toolchain.records.key import RecordKey
from toolchain.records.record import PASSING_FAILURES, Record

FILE_NAME = "records.sqlite"
_BUSY_S = 30.0
# SQLITE_ERROR: our statements do not fit the tables, so the tables are others.
_DAMAGED = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_ERROR"})
_REFUSED = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_READONLY": errno.EACCES, "SQLITE_PERM": errno.EACCES}
_LOCKED = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL"})
_DIGESTS = "SELECT DISTINCT digest, failure FROM records"
_OF_KEY = " AND ".join(f"{column}=?" for column in rows.KEY)
_MEASURED = f"AND {rows.POSSIBLE} AND best_ms IS NOT NULL"
_RANK = "modelled, confirmed DESC, CASE WHEN confirmed THEN -id ELSE best_ms END, id"
_CHOICE_FIRST = f"{_MEASURED} ORDER BY {_RANK}"

Usable = Callable[[Record], bool]


def anything(_record: Record) -> bool:
    """Find every record usable."""
    return True


def user_store() -> RecordStore:
    """Open the user's records, in the data folder."""
    return RecordStore(data_dir() / FILE_NAME)


class RecordStore:
    """The records in one file, which is created where it is missing.

    Parameters
    ----------
    path
        The SQLite file.
    read_only
        For a file that nobody writes, such as the one the project ships; it must exist.

    Raises
    ------
    UsageError
        The file is damaged, foreign, or of a newer version of this tool.
    ToolchainError
        The file system refused.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()  # one connection, several threads
        with self._explained():
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._db = schema.connect(path, read_only=read_only, wait_s=_BUSY_S)

    def add_function(self, workload: str, name: str, definition: str) -> str:
        """Keep a function that is about to be measured, once.

        Functions with the same workload hash may differ in the names of their blocks, which
        traces refer to; so each record says which one it is of.

        Parameters
        ----------
        definition
            What is computed, as a text of the backend's own.

        Returns
        -------
        str
            For `Record.function`.
        """
        identity = sha256(definition.encode()).hexdigest()
        with self._explained(), self._lock:
            query = "INSERT OR IGNORE INTO functions (id, workload, name, definition) VALUES (?, ?, ?, ?)"
            self._db.execute(query, (identity, workload, name, definition))
        return identity

    def definition(self, identity: str) -> str:
        """Return the definition that `add_function` was given."""
        found = self._all("SELECT definition FROM functions WHERE id=?", (identity,))
        if not found or not isinstance(found[0][0], str):
            raise self._unreadable(f"there is no function {identity}")
        return found[0][0]

    def add(self, record: Record) -> None:
        """Write one record; it is durable when this returns. Its function must be there."""
        with self._explained(), self._lock:
            self._db.execute(rows.INSERT, rows.values(record))

    def best(self, key: RecordKey, kinds: Sequence[str], usable: Usable = anything) -> Record | None:
        """Return the choice for exactly this key: the last confirmed record, else the fastest.

        What was measured stands before what a model said.
        """
        query = f"{rows.SELECT} WHERE {_OF_KEY} {_CHOICE_FIRST}"
        found = self._records(self._all(query, rows.key_values(key)))
        return next((record for record in found if record.kind in kinds and usable(record)), None)

    def bests(self, key: RecordKey, kinds: Sequence[str], usable: Usable = anything) -> list[Record]:
        """Return the choice for every key with the workload, triple and device of this one.

        Parameters
        ----------
        kinds
            Of the records that are asked for.
        usable
            Whether a record of them can be used; the next best of its key is asked where one cannot.
        """
        query = f"{rows.SELECT} WHERE workload=? AND triple=? AND device=? {_CHOICE_FIRST}"
        choices: dict[RecordKey, Record] = {}
        for record in self._records(self._all(query, (key.workload, key.triple, key.device))):
            if record.kind in kinds and record.key not in choices and usable(record):
                choices[record.key] = record
        return list(choices.values())

    def all(self, key: RecordKey | None = None) -> list[Record]:
        """Return every record (of one key), failures included, oldest first."""
        query = f"{rows.SELECT} WHERE {rows.POSSIBLE}"
        values: tuple[rows.Value, ...] = ()
        if key is not None:
            query, values = f"{query} AND {_OF_KEY}", rows.key_values(key)
        return self._records(self._all(f"{query} ORDER BY id", values))

    def measured(self, key: RecordKey) -> set[str]:
        """Return the digests of candidates that need no second measurement on this key."""
        found = self._all(f"{_DIGESTS} WHERE {_OF_KEY} AND {rows.POSSIBLE}", rows.key_values(key))
        return {digest for digest, failure in found if failure not in PASSING_FAILURES}

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _records(self, found: Sequence[tuple[Any, ...]]) -> list[Record]:
        try:
            return [rows.record(row) for row in found]
        except ValueError as error:
            what = answers.problem(error) if isinstance(error, ValidationError) else str(error)
            raise self._unreadable(what) from error

    def _all(self, query: str, values: tuple[rows.Value, ...]) -> list[tuple[Any, ...]]:
        with self._explained(), self._lock:
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._explain(error) from error
        except UnicodeError as error:  # SQLite's message quotes a damaged table
            raise self._unreadable("its tables are damaged") from error
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def _unreadable(self, why: str) -> UsageError:
        return UsageError(
            f"the records in {self.path} cannot be read: {why}",
            f"move the file away, for instance to {self.path.name}.damaged, or put a copy back",
        )

    def _explain(self, error: sqlite3.Error) -> ToolchainError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(tuple(_DAMAGED)):
            return self._unreadable(str(error))
        if name.startswith(tuple(_LOCKED)):
            return ToolchainError(
                f"{self.path} has been locked by another process for {_BUSY_S:.0f} s",
                "end the other program that writes to it (`fuser` names it), then try again",
            )
        number = next((n for code, n in _REFUSED.items() if name.startswith(code)), 0)
        return cannot_write(self.path, OSError(number, str(error)))

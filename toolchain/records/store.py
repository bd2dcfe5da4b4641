"""One SQLite file with every measured candidate.

Several processes may read and write at once. A record is on the disk when `add` returns.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Iterator, Sequence
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
from toolchain.records.record import METASCHEDULE, PASSING_FAILURES, Record

FILE_NAME = "records.sqlite"
_BUSY_S = 30.0
_DAMAGED = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"})
_REFUSED = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_READONLY": errno.EACCES, "SQLITE_PERM": errno.EACCES}
_LOCKED = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL"})
_DIGESTS = "SELECT DISTINCT digest, failure FROM records"
_OF_KEY = "workload=? AND triple=? AND cpu=? AND level=? AND threads=? AND board_class=?"
_MEASURED = f"AND {rows.POSSIBLE} AND best_ms IS NOT NULL"
_CHOICE_FIRST = f"{_MEASURED} ORDER BY confirmed DESC, CASE WHEN confirmed THEN -id ELSE best_ms END, id"


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
            if read_only:
                uri = path.resolve().as_uri() + "?immutable=1"
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                uri = path.resolve().as_uri()
            self._db = sqlite3.connect(
                uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                schema.prepare(self._db, path, read_only=read_only, wait_s=_BUSY_S)
            except BaseException:
                self._db.close()
                raise

    def add_function(self, workload: str, name: str, module: str) -> str:
        """Keep a function that is about to be measured, once.

        Functions with the same workload hash may differ in the names of their blocks, which
        traces refer to; so each record says which one it is of.

        Parameters
        ----------
        module
            `traces.function_json` of the function.

        Returns
        -------
        str
            For `Record.function`.
        """
        identity = sha256(module.encode()).hexdigest()
        with self._explained(), self._lock:
            query = "INSERT OR IGNORE INTO functions VALUES (?, ?, ?, ?)"
            self._db.execute(query, (identity, workload, name, module))
        return identity

    def function(self, identity: str) -> str:
        """Return what `add_function` was given, as JSON."""
        found = self._all("SELECT module FROM functions WHERE id=?", (identity,))
        if not found or not isinstance(found[0][0], str):
            raise self._unreadable(f"there is no function {identity}")
        return found[0][0]

    def add(self, record: Record) -> None:
        """Write one record; it is durable when this returns. Its function must be there."""
        with self._explained(), self._lock:
            self._db.execute(rows.INSERT, rows.values(record))

    def best(self, key: RecordKey, kinds: Sequence[str]) -> Record | None:
        """Return the choice for exactly this key: the last confirmed record, else the fastest."""
        found = [record for record in self.bests(key.workload, key.triple, kinds) if record.key == key]
        return found[0] if found else None

    def bests(self, workload: str, triple: str, kinds: Sequence[str]) -> list[Record]:
        """Return the choice among records of some kinds, for every key with this workload and triple."""
        found = self._all(f"{rows.SELECT} WHERE workload=? AND triple=? {_CHOICE_FIRST}", (workload, triple))
        choices: dict[RecordKey, Record] = {}
        for record in self._records(found):
            if record.kind in kinds:
                choices.setdefault(record.key, record)
        return list(choices.values())

    def top(self, key: RecordKey, count: int) -> list[Record]:
        """Return the `count` fastest MetaSchedule records of this key, fastest first."""
        query = f"{rows.SELECT} WHERE {_OF_KEY} {_MEASURED} AND kind=? ORDER BY best_ms, id LIMIT ?"
        return self._records(self._all(query, (*rows.key_values(key), METASCHEDULE, count)))

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

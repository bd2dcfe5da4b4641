"""Records in one SQLite file.

Several processes may read and write at once.
"""

from __future__ import annotations

import errno
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from toolchain.errors import ToolchainError, UsageError
from toolchain.files.atomic import cannot_write, make_folder
from toolchain.records.database import (
    ADDED,
    DROP_SUPERSEDED,
    INDEXES,
    VERSION,
    Notify,
    UnknownFunctionError,
    Value,
    notify_nobody,
    tables,
)

# Transactions of SQLite.


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction, rolled back if it fails; other writers wait until it ends."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk has already ended the transaction
            db.execute("ROLLBACK")
        raise


# Migration of a store from schema version 1 to version 2, and columns that were added since.

_STEPS = (
    "ALTER TABLE functions RENAME COLUMN module TO definition",
    "ALTER TABLE records ADD COLUMN device TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE records ADD COLUMN excluded TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE records ADD COLUMN modelled INTEGER NOT NULL DEFAULT 0",
    # Version 1 had a kind of its own for the best record without winograd; now the run says what it left out.
    "UPDATE records SET kind = 'cpu', excluded = 'winograd', digest = digest_of_choice(payload)"
    " WHERE kind = 'cpu-direct'",
    "DROP INDEX by_key",
    "CREATE INDEX by_key ON records (workload, triple, cpu, level, threads, board_class, device, best_ms)",
    "PRAGMA user_version = 2",
)


def digest_of_choice(payload: object) -> str:
    """Return the digest that version 1 wrote for a record of kind `cpu`."""
    return sha256(f"cpu {payload}".encode()).hexdigest()


def missing_columns(db: sqlite3.Connection) -> list[str]:
    """Return the columns that a store of an earlier program lacks."""
    existing = {row[1] for row in db.execute("PRAGMA table_info(records)")}
    return [name for name in ADDED if name not in existing]


def migrate(db: sqlite3.Connection) -> None:
    """Migrate a store of version 1 to version 2 and add missing columns, completely or not at all.

    If several processes open the file at once, the first one migrates it while the others wait.
    """
    db.create_function("digest_of_choice", 1, digest_of_choice, deterministic=True)
    with transaction(db):
        if db.execute("PRAGMA user_version").fetchone()[0] == 1:
            for step in _STEPS:
                db.execute(step)
        for name in missing_columns(db):
            db.execute(f"ALTER TABLE records ADD COLUMN {name} {ADDED[name]}")


def migrated_copy(db: sqlite3.Connection) -> sqlite3.Connection:
    """Return a migrated copy in memory of an earlier program's store, for a file that cannot be written."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        db.backup(copy)
        migrate(copy)
        copy.execute("PRAGMA query_only=ON")
    except BaseException:
        copy.close()
        raise
    return copy


# The tables in an SQLite file, and their version.

_MARKS = ("application_id", "user_version")
_APPLICATION = 0x45444745  # "EDGE": tells our files from those of other programs
_LARGE = 50 * 2**20  # bytes; indexing a larger file takes so long that the user is told


def connect(path: Path, *, read_only: bool, wait_s: float, notify: Notify) -> sqlite3.Connection:
    """Open a store; create it if it is missing, migrate an earlier version and add missing indexes.

    A file opened as `read_only` is not changed: of an earlier version, a migrated copy in memory is returned.

    Parameters
    ----------
    notify
        Called before a step that takes long.

    Raises
    ------
    UsageError
        The file is not a store, is damaged, or was written by a newer version.
    """
    uri = path.resolve().as_uri() + ("?immutable=1" if read_only else "")
    db = sqlite3.connect(uri, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA foreign_keys=ON")
        if not read_only:
            _write_ahead(db, wait_s)
            db.execute("PRAGMA synchronous=FULL")  # a commit survives a power cut
            _create(db)
        current = _version(db, path) == VERSION and not missing_columns(db)
        if not read_only:
            if not current:
                migrate(db)
            if not _is_indexed(db):
                if path.stat().st_size > _LARGE:
                    notify(f"creating indexes in {path}, once: with that many records it may take a minute")
                _add_indexes(db)
        if current or not read_only:
            return db
        copy = migrated_copy(db)
    except BaseException:
        db.close()
        raise
    db.close()
    return copy


def connect_memory() -> sqlite3.Connection:
    """Create a store in memory."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA foreign_keys=ON")
    _create(db)
    return db


def _is_indexed(db: sqlite3.Connection) -> bool:
    existing = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='index'")}
    return existing >= INDEXES.keys()


def _add_indexes(db: sqlite3.Connection) -> None:
    """Create the missing indexes in one transaction; if several processes try, one creates them."""
    with transaction(db):
        for statement in (*INDEXES.values(), DROP_SUPERSEDED):
            db.execute(statement)


def _version(db: sqlite3.Connection, path: Path) -> int:
    """Return the schema version of a store; raise an error if it can be neither read nor migrated."""
    application, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in _MARKS)
    if application != _APPLICATION:
        raise UsageError(f"{path} is an SQLite file, but not a store of records", "name another file")
    if version > VERSION:
        raise UsageError(
            f"{path} has schema version {version}, this toolchain reads versions 1 to {VERSION}",
            "use the newer toolchain that wrote it, or move the file away",
        )
    if version < 1:
        raise UsageError(
            f"the records in {path} cannot be read: schema version {version} never existed",
            f"move the file away, for instance to {path.name}.damaged, or restore a backup",
        )
    return int(version)


def _write_ahead(db: sqlite3.Connection, wait_s: float) -> None:
    # SQLite's busy timeout does not cover a change of the journal mode, so retry here.
    deadline = time.monotonic() + wait_s
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            locked = error.sqlite_errorname.startswith("SQLITE_BUSY")
            if not locked or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _create(db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION:
        return
    with transaction(db):  # if several processes start at once, one of them creates
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            for statement in tables(identity="INTEGER PRIMARY KEY", integer="INTEGER", real="REAL"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id={_APPLICATION}")
            db.execute(f"PRAGMA user_version={VERSION}")


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
    notify
        Called before a step that takes long.

    Raises
    ------
    UsageError
        The file is damaged, foreign, or written by a newer version of this tool.
    ToolchainError
        The file system refused.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False, notify: Notify = notify_nobody) -> None:
        self.path = path or Path(":memory:")
        self.name = str(self.path)
        with self._explained():
            if path is None:
                self._db = connect_memory()
                return
            if not read_only:
                make_folder(path.parent)
                if path.parent.is_dir() and not path.exists():
                    path.touch(mode=0o600)
            self._db = connect(path, read_only=read_only, wait_s=_BUSY_S, notify=notify)

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

"""The tables in an SQLite file, and their version."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from toolchain.errors import UsageError
from toolchain.records.database import Tell
from toolchain.records.sqlite.migration import migrate, migrated_copy, missing_columns
from toolchain.records.sqlite.transaction import transaction
from toolchain.records.tables import DROP_SUPERSEDED, INDEXES, VERSION, tables

_MARKS = ("application_id", "user_version")
_APPLICATION = 0x45444745  # "EDGE": tells our files from those of other programs
_LARGE = 50 * 2**20  # bytes; indexing a larger file takes so long that the user is told


def connect(path: Path, *, read_only: bool, wait_s: float, tell: Tell) -> sqlite3.Connection:
    """Open a store; create it if it is missing, migrate an earlier version and add missing indexes.

    A file opened as `read_only` is not changed: of an earlier version, a migrated copy in memory is returned.

    Parameters
    ----------
    tell
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
                    tell(f"creating indexes in {path}, once: with that many records it may take a minute")
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
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='index'")}
    return there >= INDEXES.keys()


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

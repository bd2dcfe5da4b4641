"""Migration of a store from schema version 1 to version 2, and columns that were added since."""

from __future__ import annotations

import sqlite3
from hashlib import sha256

from toolchain.records.sqlite.transaction import transaction
from toolchain.records.tables import ADDED

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
    there = {row[1] for row in db.execute("PRAGMA table_info(records)")}
    return [name for name in ADDED if name not in there]


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

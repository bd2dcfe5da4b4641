"""The tables on a PostgreSQL server, and their version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolchain.errors import UsageError
from toolchain.records.database import ADDED, DROP_SUPERSEDED, INDEXES, VERSION, Tell, tables

if TYPE_CHECKING:
    from psycopg import Connection

_LOCK = 0x45444745  # "EDGE"
_MARK = "edge_toolchain"
"""The table that marks a database as ours and holds the schema version."""


def prepare_tables(db: Connection[Any], name: str, tell: Tell) -> None:
    """Check the tables; create missing tables, and missing indexes if the user owns the tables.

    Parameters
    ----------
    tell
        Called before a step that takes long.

    Raises
    ------
    UsageError
        The database has foreign tables of these names, or another schema version.
    """
    if not _exists(db, _MARK):
        with db.transaction():
            _take_turns(db)
            if not _exists(db, _MARK):
                _create(db, name)
                return
    _check_version(db, name)
    _add_columns(db, name)
    if _lacks_indexes(db):
        tell(
            f"creating indexes in the records database {name}, once: with many records that may take a minute"
        )
        with db.transaction():
            _take_turns(db)
            for statement in (*INDEXES.values(), DROP_SUPERSEDED):
                db.execute(statement.encode())


def _take_turns(db: Connection[Any]) -> None:
    """Wait until no other process creates tables or indexes, and keep others out."""
    db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def _add_columns(db: Connection[Any], name: str) -> None:
    """Add the columns that a database of an earlier program lacks."""
    from psycopg.errors import InsufficientPrivilege

    if not _missing_columns(db):
        return
    try:
        with db.transaction():
            _take_turns(db)
            for column in _missing_columns(db):
                db.execute(f"ALTER TABLE records ADD COLUMN {column} {ADDED[column]}".encode())
    except InsufficientPrivilege as error:
        raise UsageError(
            f"the records database {name} lacks columns that only the owner of its tables may add: "
            f"{', '.join(_missing_columns(db))}",
            "let its owner open it once with this version: `toolchain records list`",
        ) from error


def _missing_columns(db: Connection[Any]) -> list[str]:
    found = db.execute(
        "SELECT attname::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
        " JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE pg_class.relname = 'records' AND nspname = ANY (current_schemas(false)) AND attnum > 0"
        " AND NOT attisdropped"
    ).fetchall()
    return [name for name in ADDED if (name,) not in found]


def _lacks_indexes(db: Connection[Any]) -> bool:
    """Whether indexes are missing that this user may create: only the owner of a table may."""
    found = db.execute(
        "SELECT pg_has_role(pg_class.relowner, 'USAGE'), ARRAY(SELECT named.relname::text FROM pg_index"
        " JOIN pg_class AS named ON named.oid = indexrelid WHERE indrelid = pg_class.oid)"
        " FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE pg_class.relname = 'records' AND nspname = ANY (current_schemas(false))"
    ).fetchone()
    return found is not None and found[0] and not INDEXES.keys() <= set(found[1])


def _create(db: Connection[Any], name: str) -> None:
    for table in ("records", "functions"):
        if _exists(db, table):
            raise UsageError(
                f"the database {name} has a table {table} that is not ours",
                "name another database in records_url, one for records alone",
            )
    own_number = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    for statement in tables(identity=own_number, integer="BIGINT", real="DOUBLE PRECISION"):
        db.execute(statement.encode())
    db.execute(f"CREATE TABLE {_MARK} (version BIGINT NOT NULL)".encode())
    db.execute(f"INSERT INTO {_MARK} VALUES (%s)".encode(), (VERSION,))  # noqa: S608  # our own constant


def _check_version(db: Connection[Any], name: str) -> None:
    found = db.execute(f"SELECT version FROM {_MARK}".encode()).fetchall()  # noqa: S608
    versions = [row[0] for row in found]
    if versions == [VERSION]:
        return
    said = ", ".join(map(str, versions)) or "none"
    newer = versions and versions[0] > VERSION
    raise UsageError(
        f"the database {name} has schema version {said}, this toolchain reads version {VERSION}",
        "use the newer toolchain that made it" if newer else "name another database, or restore a backup",
    )


def _exists(db: Connection[Any], table: str) -> bool:
    # Not to_regclass: under our lock it may still answer from before.
    found = db.execute(
        "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE relname = %s AND nspname = ANY (current_schemas(false))",
        (table,),
    )
    return found.fetchone() is not None

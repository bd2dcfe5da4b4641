"""The tables of the store, for every database."""

from __future__ import annotations

from toolchain.records.columns import FAILED, GROUP, KEY, RANK

VERSION = 2
"""Schema version of the tables. A new version needs a migration for every database."""
_TABLES = """
CREATE TABLE functions (
    id TEXT PRIMARY KEY,
    workload TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL
);
CREATE TABLE records (
    id {identity},
    function TEXT NOT NULL REFERENCES functions(id),
    workload TEXT NOT NULL,
    triple TEXT NOT NULL,
    cpu TEXT NOT NULL,
    level TEXT NOT NULL,
    threads {integer} NOT NULL,
    board_class TEXT NOT NULL,
    device TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    digest TEXT NOT NULL,
    best_ms {real},
    run_ms TEXT NOT NULL,
    failure TEXT,
    confirmed {integer} NOT NULL,
    created TEXT NOT NULL,
    run TEXT NOT NULL,
    trial {integer},
    board TEXT NOT NULL,
    runtime TEXT NOT NULL,
    tvm TEXT NOT NULL,
    tvm_ffi TEXT NOT NULL,
    tool TEXT NOT NULL,
    governor TEXT,
    temperature_c {real},
    excluded TEXT NOT NULL,
    modelled {integer} NOT NULL,
    conditions TEXT,
    CHECK ((best_ms IS NULL) = (failure IS NOT NULL))
);
"""
ADDED = {"conditions": "TEXT"}
"""Columns that a store of this version may lack, because an earlier program made it. They are added when it
is opened, and need no new schema version: older programs read and write as before.
"""
_INDEXED = {
    "by_rank": f"({', '.join(GROUP)}, {FAILED}, {RANK})",
    "refutations": f"(digest, {', '.join(KEY)}) WHERE failure = 'wrong result'",
    "by_created": "(created, id, board, board_class, kind, best_ms)",
    "by_run": "(run, created)",
    "by_measurement": f"({', '.join(('digest', *KEY, 'kind'))})",
}
INDEXES = {name: f"CREATE INDEX IF NOT EXISTS {name} ON records {what}" for name, what in _INDEXED.items()}
"""Statements that create the indexes, by the index's name. A new index needs no new schema version: older
programs read and write as before. A changed index gets another name.

by_rank: the best record of a group is its first entry. refutations: candidates with wrong results, which are
few. by_created: lists and counts without reading the records. by_run: all runs, and the records of one.
by_measurement: whether a measurement is stored already, without reading all of its task.
"""
DROP_SUPERSEDED = "DROP INDEX IF EXISTS by_key"
"""Drops the index that `by_rank` replaces: it begins with the same columns."""


def tables(*, identity: str, integer: str, real: str) -> list[str]:
    """Return the statements that create the tables and their indexes, with a database's type names.

    Parameters
    ----------
    identity
        Type of an auto-incrementing primary key.
    """
    text = _TABLES.format(identity=identity, integer=integer, real=real)
    return [*(statement for statement in map(str.strip, text.split(";")) if statement), *INDEXES.values()]

"""The tables of the store, for every database."""

from __future__ import annotations

from toolchain.records.columns import FAILED, GROUP, KEY, RANK

VERSION = 2
"""Of the tables. Another one needs a step in the migrations of every database."""
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
    CHECK ((best_ms IS NULL) = (failure IS NOT NULL))
);
"""
_INDEXED = {
    "by_rank": f"({', '.join(GROUP)}, {FAILED}, {RANK})",
    "refutations": f"(digest, {', '.join(KEY)}) WHERE failure = 'wrong result'",
    "by_created": "(created, id, board, board_class, kind, best_ms)",
    "by_run": "(run, created)",
}
INDEXES = {name: f"CREATE INDEX IF NOT EXISTS {name} ON records {what}" for name, what in _INDEXED.items()}
"""Statements by the index that each creates. A new index is no new version of the tables: programs that do
not know it read and write as before. An index that is changed gets another name.

by_rank: the choice of a group is its first entry. refutations: few. by_created: what a list shows, and how
many there are, without the records themselves. by_run: the runs there were, and the records of one.
"""
DROP_SUPERSEDED = "DROP INDEX IF EXISTS by_key"
"""The index that `by_rank` begins like."""


def tables(*, identity: str, integer: str, real: str) -> list[str]:
    """Return the statements that create the tables and their indexes, with a database's words for types.

    Parameters
    ----------
    identity
        A number that counts up by itself, as primary key.
    """
    text = _TABLES.format(identity=identity, integer=integer, real=real)
    return [*(statement for statement in map(str.strip, text.split(";")) if statement), *INDEXES.values()]

"""The tables of the store, for every database."""

from __future__ import annotations

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
CREATE INDEX by_key ON records (workload, triple, cpu, level, threads, board_class, device, best_ms);
"""


def tables(*, identity: str, integer: str, real: str) -> list[str]:
    """Return the statements that create the tables, with a database's words for types.

    Parameters
    ----------
    identity
        A number that counts up by itself, as primary key.
    """
    text = _TABLES.format(identity=identity, integer=integer, real=real)
    return [statement for statement in map(str.strip, text.split(";")) if statement]

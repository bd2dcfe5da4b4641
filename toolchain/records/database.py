"""The interface between the store of records and a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from toolchain.architectures.least_time import LEAST_MS, LONGEST_MS
from toolchain.errors import ToolchainError, UsageError
from toolchain.records.record import Record, RecordKey

# The columns of the table `records`: the one list of them, for every database.

KEY = ("workload", "triple", "cpu", "level", "threads", "board_class", "device")
OWN = ("function", "kind", "payload", "digest", "run_ms", "failure", "confirmed", "created")
PROVENANCE = (
    *("run", "board", "runtime", "tvm", "tvm_ffi", "tool", "trial"),
    *("governor", "temperature_c", "excluded", "modelled", "conditions"),
)
NAMES = (*KEY, *OWN, *PROVENANCE)
IDENTITY = (*KEY, "function", "kind", "digest", "run_ms", "confirmed", "run", "board")
"""Two records with equal values in these columns are the same measurement. All are NOT NULL."""

_NUMBERS = {
    **dict.fromkeys(("threads", "confirmed", "trial", "modelled"), "BIGINT"),
    **dict.fromkeys(("temperature_c", "best_ms"), "DOUBLE PRECISION"),
}
Value = str | int | float | None

ALL = ", ".join(NAMES)
OF_KEY = " AND ".join(f"{name}=?" for name in KEY)
# Earlier versions stored whatever time a board reported; impossible times are ignored.
POSSIBLE = f"(best_ms IS NULL OR (best_ms >= {LEAST_MS} AND best_ms < {LONGEST_MS}))"
_SAME = " AND ".join(f"refuted.{name} = records.{name}" for name in (*KEY, "digest"))
# A candidate that ran and was later found to compute a wrong result. `created` decides what is later, not the
# row id: an imported record is older than its row.
_LATER = (
    "(refuted.created > records.created OR (refuted.created = records.created AND refuted.id > records.id))"
)
_REFUTED = (
    f"EXISTS (SELECT 1 FROM records AS refuted WHERE {_SAME} AND {_LATER}"  # noqa: S608
    " AND refuted.best_ms IS NULL AND refuted.failure = 'wrong result')"
)
MEASURED = f"{POSSIBLE} AND best_ms IS NOT NULL AND NOT {_REFUTED}"
RANK = (
    "modelled, confirmed DESC, (CASE WHEN confirmed = 1 THEN created END) DESC,"
    " (CASE WHEN confirmed = 1 THEN -id ELSE best_ms END), id"
)
"""The order in which a build prefers the records of one key: measured before modelled, then the confirmed
record created last (imported records are older than their row ids), then the fastest."""
FAILED = "(CASE WHEN best_ms IS NULL THEN 1 ELSE 0 END)"
"""1 for a failure, so that failures come last within a group in the index `by_rank`."""
GROUP = (*KEY, "kind", "excluded")
"""Records with equal values in these columns suit the same builds, unless a payload says otherwise."""
OF_GROUP = " AND ".join(f"{name}=?" for name in GROUP)

SELECT = f"SELECT id, {ALL} FROM records"  # noqa: S608  # our own constants
INSERT = f"INSERT INTO records ({ALL}, best_ms) VALUES ({', '.join('?' * (len(NAMES) + 1))})"  # noqa: S608
_CASTS = ", ".join(f"CAST(? AS {_NUMBERS.get(name, 'TEXT')})" for name in (*NAMES, "best_ms"))
INSERT_NEW = (
    f"INSERT INTO records ({ALL}, best_ms) SELECT {_CASTS} WHERE NOT EXISTS "  # noqa: S608
    f"(SELECT 1 FROM records WHERE {' AND '.join(f'{name}=?' for name in IDENTITY)})"
)
"""Inserts a measurement unless it is stored already; takes the values of `INSERT`, then those of `IDENTITY`.
"""


def possible_ms(ms: float) -> bool:
    """Whether this is a plausible duration of one call."""
    return LEAST_MS <= ms < LONGEST_MS


def key_values(key: RecordKey) -> tuple[Value, ...]:
    """Return the key's columns in their order."""
    return tuple(getattr(key, name) for name in KEY)


# The tables of the store, for every database.

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


# Filters for records: by task, board class, kind, board and age.


@dataclass(frozen=True)
class Selection:
    """A filter for records; an empty criterion selects everything.

    Attributes
    ----------
    tasks
        Prefixes of the workloads' hashes, as `toolchain tasks` prints them.
    boards
        Names of the boards that measured.
    since
        Earliest time of creation: ISO 8601 in UTC, in the format of `Record.created`.
    """

    tasks: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    since: str = ""

    def __contains__(self, record: Record) -> bool:
        return (
            (not self.tasks or record.key.workload.startswith(self.tasks))
            and (not self.classes or record.key.board_class in self.classes)
            and (not self.kinds or record.kind in self.kinds)
            and (not self.boards or record.provenance.board in self.boards)
            and record.created >= self.since
        )

    def where(self) -> tuple[str, tuple[Value, ...]]:
        """Return the filter as SQL conditions, each preceded by AND, and their values."""
        conditions, values = [], []
        if self.tasks:
            # The index needs whole hashes; there are few functions compared with records.
            begins = " OR ".join("substr(workload, 1, ?) = ?" for _ in self.tasks)
            conditions.append(f"workload IN (SELECT workload FROM functions WHERE {begins})")  # noqa: S608
            values += [value for task in self.tasks for value in (len(task), task)]
        for column, accepted in (("board_class", self.classes), ("kind", self.kinds), ("board", self.boards)):
            if accepted:
                conditions.append(f"{column} IN ({', '.join('?' * len(accepted))})")
                values += accepted
        if self.since:
            conditions.append("created >= ?")
            values.append(self.since)
        return "".join(f" AND {condition}" for condition in conditions), tuple(values)


EVERYTHING = Selection()


def unmeasured(records: Iterable[Record], known: Iterable[Record]) -> list[Record]:
    """Return the records whose measurement is not among the known ones, whatever their run."""
    measurements = {_measurement(record) for record in known}
    return [record for record in records if _measurement(record) not in measurements]


def _measurement(record: Record) -> tuple[object, ...]:
    # Times that other programs wrote in seconds agree in milliseconds to some digits only.
    return (record.key, record.digest, record.failure, *(f"{ms:.9g}" for ms in record.run_ms))


# Queries that find the preferred records without reading the others.
#
# A group is the records with equal key, kind and `excluded`. The index `by_rank` lists the groups one after
# the other, and the records of each in the order of preference. So the queries find the first record of
# every group by skipping from group to group, and read further records of a group only if a build cannot
# use its first.

_GROUP = ", ".join(GROUP)
_FOUND = ", ".join(f"found.{name}" for name in ("id", *NAMES))
_NEXT = ", ".join(f"next.{name}" for name in GROUP)
_BEHIND = f"({_GROUP}) > ({', '.join(f'groups.{name}' for name in GROUP)})"
_SAME_GROUP = " AND ".join(f"records.{name} = groups.{name}" for name in GROUP)

FIRST = (
    f"WITH RECURSIVE groups ({_GROUP}) AS ("  # noqa: S608  # our own constants
    f" SELECT * FROM (SELECT {_GROUP} FROM records ORDER BY {_GROUP} LIMIT 1) AS begin"
    f" UNION ALL SELECT {_NEXT} FROM groups, records AS next"
    f" WHERE next.id = (SELECT id FROM records WHERE {_BEHIND} ORDER BY {_GROUP} LIMIT 1))"
    f" SELECT {_FOUND} FROM groups, records AS found WHERE found.id = (SELECT id FROM records"
    f" WHERE {_SAME_GROUP} AND {FAILED} = 0 AND {MEASURED} ORDER BY {RANK} LIMIT 1)"
    f" ORDER BY {', '.join(f'groups.{name}' for name in GROUP)}"
)
"""Selects the id and the columns of the best record of each group; groups with only failures are left out."""

PAGE = (
    f"SELECT id, {ALL} FROM records"  # noqa: S608  # our own constants
    f" WHERE {OF_GROUP} AND {FAILED} = 0 AND {MEASURED} ORDER BY {RANK} LIMIT ? OFFSET ?"
)
"""Selects the records of one group in their order; takes the values of `GROUP`, a limit and an offset."""


def rank(number: int, record: Record) -> tuple[object, ...]:
    """Return a sort key that orders records with times as `columns.RANK` does, across groups as well."""
    if not record.confirmed:
        return (record.provenance.modelled, True, record.best_ms, number)
    latest_first = (*(-ord(letter) for letter in record.created), 1)
    return (record.provenance.modelled, False, latest_first, -number)


Notify = Callable[[str], None]
"""Called with a sentence for the user about a wait: what it is for, and how long it may take."""


def notify_nobody(_text: str) -> None:
    """Ignore the sentence."""


class ConnectionRenewedError(ToolchainError):
    """The connection broke and was made again: the last statement may or may not have taken effect."""


class DatabaseGoneError(ToolchainError):
    """The database no longer answers."""


class UnknownFunctionError(ToolchainError):
    """A record refers to a function that is not stored."""


class Database(Protocol):
    """A connection to the tables, to be used by one thread at a time.

    Statements are SQL that every database understands, with `?` for values. When the database refuses, every
    method raises a ToolchainError that says why.
    """

    name: str
    """Name for messages, without the password."""

    def rows(self, query: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

    def run(self, statement: str, values: Sequence[Value] = ()) -> int:
        """Execute a statement and return how many rows it changed. The change is durable on return.

        Raises
        ------
        ConnectionRenewedError
            It is unknown whether the statement took effect.
        UnknownFunctionError
            A record's function is not stored.
        """

    def run_for_each(self, statement: str, rows: Iterable[Sequence[Value]]) -> int:
        """Execute a statement once for each row of values; return how many rows were changed in total."""

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block as one transaction with exclusive write access."""

    def compact(self) -> None:
        """Release the space of deleted rows."""

    def unreadable(self, why: str) -> UsageError:
        """Return the error for a row that this toolchain cannot have written."""

    def close(self) -> None:
        """Close the connection."""

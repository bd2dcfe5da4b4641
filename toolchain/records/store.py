"""The store of all measured candidates: a file of the user's, or a team's database.

Several processes may read and write at once. A record is on the disk when `add` returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from toolchain.configuration.settings import data_dir, settings
from toolchain.errors import ToolchainError
from toolchain.quantities import counted
from toolchain.records import database, exchange
from toolchain.records.database import (
    EVERYTHING,
    ConnectionRenewedError,
    Database,
    DatabaseGoneError,
    Notify,
    Selection,
    UnknownFunctionError,
    notify_nobody,
    unmeasured,
)
from toolchain.records.exchange import Function, function_id
from toolchain.records.record import PASSING_FAILURES, Record, RecordKey
from toolchain.records.sqlite import FILE_NAME, SqliteFile

_DIGESTS = "SELECT DISTINCT digest, failure FROM records"
_BEST_FIRST = f"AND {database.MEASURED} ORDER BY {database.RANK}"
_KIND = 1 + database.NAMES.index("kind")  # column 0 is the row's id
_CREATED = 1 + database.NAMES.index("created")
_OF_GROUP = [database.NAMES.index(name) for name in database.GROUP]
_PAGE = 10_000  # rows in memory
_ADD_FUNCTION = (
    "INSERT INTO functions (id, workload, name, definition) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)

# Records in the first page and in the largest; each page is twice as long as the one before.
_PAGES = (64, 4096)
_GROUP_PAGES = (4, 128)  # builds seldom need more than the first record

Usable = Callable[[Record], bool]


class Group(NamedTuple):
    """Records with equal values of `database.GROUP`; `of` has these values.

    Attributes
    ----------
    records
        Pairs of row id and record in the order of preference, read lazily.
    """

    of: tuple[Any, ...]
    records: Iterator[tuple[int, Record]]


def anything(_record: Record) -> bool:
    """Accept every record."""
    return True


def user_store(notify: Notify = notify_nobody, *, wait: bool = True) -> RecordStore:
    """Open the configured store: the team's database, else the file in the data folder.

    Parameters
    ----------
    notify
        Called before a wait or a step that takes long.
    wait
        Whether to wait for a database that does not answer.

    Raises
    ------
    UsageError
        `records_url` is not the address of a database, or the database has foreign tables.
    MissingError
        The database's driver is not installed.
    ToolchainError
        The database does not answer.
    """
    url = settings().records_url
    if url is None:
        return RecordStore(SqliteFile(data_dir() / FILE_NAME, notify=notify))
    from toolchain.records.postgres.server import connect  # here, since it imports the driver

    return RecordStore(connect(url.get_secret_value(), notify, away_s=None if wait else 0))


class RecordStore:
    """The measured candidates in one database, with the functions that they compute.

    Parameters
    ----------
    where
        Path of an SQLite file, created if it is missing; or an open database of another kind.
    read_only
        Open the file for reading only; it must exist, and no process may write it meanwhile.

    Raises
    ------
    UsageError
        The file is damaged, foreign, or written by a newer version of this tool.
    ToolchainError
        The file system refused.
    """

    def __init__(self, where: Path | Database, *, read_only: bool = False) -> None:
        self._database = SqliteFile(where, read_only=read_only) if isinstance(where, Path) else where
        self._lock = threading.RLock()  # one connection, several threads
        self._functions: dict[str, Function] = {}  # those added by this object
        self._added = 0
        self.unreadable: dict[int, str] = {}
        """Unreadable rows that were skipped: row id -> what is wrong with it."""

    @property
    def name(self) -> str:
        """Path or address of the records, for messages."""
        return self._database.name

    def add_function(self, workload: str, name: str, definition: str) -> str:
        """Store a function that is about to be measured, unless it is stored already; return its id.

        Functions with the same workload hash may differ in the names of their blocks, which
        traces refer to; so each record names its function.

        Parameters
        ----------
        definition
            What is computed, as text in the backend's own format.

        Returns
        -------
        str
            The id, for `Record.function`.
        """
        identity = function_id(definition)
        function = self._functions[identity] = Function(identity, workload, name, definition)
        with self._lock, self._counted():
            try:
                self._database.run(_ADD_FUNCTION, function)
            except ConnectionRenewedError:
                self._database.run(_ADD_FUNCTION, function)
        return identity

    def definition(self, identity: str) -> str:
        """Return the definition of the function with this id.

        Raises
        ------
        UnknownFunctionError
            It is not stored: another process has removed it, with its records.
        """
        rows = self._all("SELECT definition FROM functions WHERE id=?", (identity,))
        if not rows:
            if self._all("SELECT 1 FROM records WHERE function=? LIMIT 1", (identity,)):
                raise self._database.unreadable(f"there is no function {identity}")
            raise UnknownFunctionError(
                f"the records of function {identity} have been removed meanwhile, by another process",
                "run it again",
            )
        if not isinstance(rows[0][0], str):
            raise self._database.unreadable(f"function {identity} has no text")
        return rows[0][0]

    def add(self, record: Record) -> None:
        """Write one record, whose function must be stored. The record is durable on return."""
        values = exchange.values(record)
        with self._lock, self._counted():
            try:
                self._database.run(database.INSERT, values)
            except ConnectionRenewedError:
                self._database.run(database.INSERT_NEW, exchange.values_if_new(record))
            except UnknownFunctionError:  # another process has removed functions without records
                if record.function not in self._functions:
                    raise
                self._database.run(_ADD_FUNCTION, self._functions[record.function])
                self._database.run(database.INSERT, values)
            self._added += 1

    def add_new(
        self, functions: Iterable[Function], records: Iterable[Record], *, of_any_run: bool = True
    ) -> int:
        """Write new functions and records in one transaction; return how many of the records were new.

        Parameters
        ----------
        of_any_run
            Equal measurements of two runs are two records. False: a measurement that is stored is not new,
            whatever its run; what is stored is read in the same transaction.
        """
        with self._lock, self._database.transaction():
            if not of_any_run:
                records = unmeasured(records, self.all())
            self._database.run_for_each(_ADD_FUNCTION, list(functions))
            return self._database.run_for_each(database.INSERT_NEW, map(exchange.values_if_new, records))

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove records by row id, and functions left without records, in one transaction."""
        with self._lock, self._database.transaction():
            self._database.run_for_each("DELETE FROM records WHERE id=?", [(number,) for number in numbers])
            self._database.run(
                "DELETE FROM functions WHERE NOT EXISTS"
                " (SELECT 1 FROM records WHERE records.function = functions.id)"
            )

    def compact(self) -> None:
        """Release the space of removed records."""
        with self._lock:
            self._database.compact()

    def best(self, key: RecordKey, kinds: Sequence[str], usable: Usable = anything) -> Record | None:
        """Return the best record for exactly this key: the last confirmed one, else the fastest.

        Measured records are preferred to modelled ones.
        """
        query = f"{database.SELECT} WHERE {database.OF_KEY} {_BEST_FIRST}"
        candidates = self._records(self._all(query, database.key_values(key)))
        return next(
            (record for _number, record in candidates if record.kind in kinds and usable(record)), None
        )

    def bests(self, key: RecordKey, kinds: Sequence[str], usable: Usable = anything) -> list[Record]:
        """Return the best record of every key that has the workload, triple and device of this one.

        Parameters
        ----------
        kinds
            Kinds of records to consider.
        usable
            Whether a record can be used; if not, the next best of its key is tried.
        """
        query = f"{database.SELECT} WHERE workload=? AND triple=? AND device=? {_BEST_FIRST}"
        choices: dict[tuple[Any, ...], Record] = {}
        for row in self._all(query, (key.workload, key.triple, key.device)):
            row_key = row[1 : 1 + len(database.KEY)]
            if row_key in choices or row[_KIND] not in kinds:
                continue  # most rows of a tuned task end here, without being converted
            for _number, record in self._records([row]):
                if usable(record):
                    choices[row_key] = record
        return list(choices.values())

    def all(self, key: RecordKey | None = None) -> list[Record]:
        """Return every record (of one key), failures included, oldest first."""
        query = f"{database.SELECT} WHERE {database.POSSIBLE}"
        values: tuple[database.Value, ...] = ()
        if key is not None:
            query, values = f"{query} AND {database.OF_KEY}", database.key_values(key)
        return [record for _number, record in self._records(self._all(f"{query} ORDER BY id", values))]

    def newest(self, selection: Selection = EVERYTHING) -> Iterator[Record]:
        """Yield the selected records, failures included, newest first; pages are read as needed."""
        where, values = selection.where()
        page, longest = _PAGES
        last: tuple[database.Value, ...] = ()
        while True:
            behind = " AND (created, id) < (?, ?)" if last else ""
            query = (
                f"{database.SELECT} WHERE {database.POSSIBLE}{where}{behind}"
                " ORDER BY created DESC, id DESC LIMIT ?"
            )
            rows = self._all(query, (*values, *last, page))
            yield from (record for _number, record in self._records(rows))
            if len(rows) < page:
                return
            last = (rows[-1][_CREATED], rows[-1][0])
            page = min(longest, 2 * page)

    def count(self, selection: Selection = EVERYTHING) -> int:
        """Return how many records are selected, unreadable ones included."""
        where, values = selection.where()
        query = f"SELECT count(*) FROM records WHERE {database.POSSIBLE}{where}"  # noqa: S608  # our own
        return int(self._all(query, values)[0][0])

    def runs(self, board: str | None = None) -> list[tuple[str, str]]:
        """Return the ids of tuning runs with the creation time of their last record, latest run first.

        Parameters
        ----------
        board
            Only runs that measured on this board, or on boards of this class; None: all.
        """
        where, values = ("", ()) if board is None else (" WHERE board=? OR board_class=?", (board, board))
        query = f"SELECT run, max(created) AS last FROM records{where} GROUP BY run ORDER BY last DESC, run"  # noqa: S608
        return [(run, last) for run, last in self._all(query, values)]

    def of_run(self, run: str, limit: int | None = None) -> list[Record]:
        """Return the records of a run, at most `limit`, failures included, oldest first."""
        first = f" LIMIT {limit}" if limit is not None else ""
        query = f"{database.SELECT} WHERE run=? AND {database.POSSIBLE} ORDER BY created, id{first}"
        return [record for _number, record in self._records(self._all(query, (run,)))]

    def groups(self) -> list[Group]:
        """Return the groups that have records with times, in the order of their keys; see `ranking`."""
        return [
            Group(tuple(row[1 + at] for at in _OF_GROUP), chain(self._records([row]), self._behind(row)))
            for row in self._all(database.FIRST)
        ]

    def _behind(self, first: tuple[Any, ...]) -> Iterator[tuple[int, Record]]:
        """Yield the records of a group after its first; pages are read as needed."""
        values = tuple(first[1 + at] for at in _OF_GROUP)
        skip, (page, longest) = 1, _GROUP_PAGES
        while True:
            rows = self._all(database.PAGE, (*values, page, skip))
            yield from self._records(rows)
            if len(rows) < page:
                return
            skip += page
            page = min(longest, 2 * page)

    def numbers(self, *, failures: bool) -> list[int]:
        """Return the row ids of all records, or of those without a failure."""
        query = "SELECT id FROM records" if failures else "SELECT id FROM records WHERE failure IS NULL"
        return [row[0] for row in self._all(query)]

    def look_at_all(self) -> None:
        """Try to read every row, those with impossible times included, to fill `unreadable`."""
        last = 0
        while rows := self._all(f"{database.SELECT} WHERE id>? ORDER BY id LIMIT {_PAGE}", (last,)):
            last = rows[-1][0]
            for _number, _record in self._records(rows):
                pass

    def functions(self) -> list[Function]:
        """Return every function that records refer to, with its definition."""
        return [Function(*row) for row in self._all("SELECT id, workload, name, definition FROM functions")]

    def function_names(self) -> dict[str, str]:
        """Return the name of every function by its id."""
        return dict(self._all("SELECT id, name FROM functions"))

    def measured(self, key: RecordKey) -> set[str]:
        """Return the digests of candidates that need not be measured again for this key."""
        query = f"{_DIGESTS} WHERE {database.OF_KEY} AND {database.POSSIBLE}"
        rows = self._all(query, database.key_values(key))
        return {digest for digest, failure in rows if failure not in PASSING_FAILURES}

    def devices(self, key: RecordKey) -> list[str]:
        """Return the devices that measured this workload on boards of the key's class; `""` is the CPU."""
        query = "SELECT DISTINCT device FROM records WHERE workload=? AND board_class=? AND failure IS NULL"
        return sorted(row[0] for row in self._all(query, (key.workload, key.board_class)))

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _records(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Record]]:
        for number, *fields in rows:
            try:
                yield number, exchange.record(fields)
            except exchange.UnreadableRowError as error:
                self.unreadable[number] = str(error)

    def _all(self, query: str, values: tuple[database.Value, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock, self._counted():
            return self._database.rows(query, values)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Add to the error of a database that went away how many records were stored."""
        try:
            yield
        except DatabaseGoneError as error:
            added = counted(self._added, "record added so far is", "records added so far are")
            kept = f"the {added} stored, the one in progress is lost"
            message = f"{error.message}; {kept}" if self._added else error.message
            raise ToolchainError(message, error.hint) from error

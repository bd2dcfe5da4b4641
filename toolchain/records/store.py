"""The store with every measured candidate: a file of the user's, or a team's database.

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
from toolchain.records import columns, ranking, rows
from toolchain.records.database import (
    ConnectionRenewedError,
    Database,
    DatabaseGoneError,
    Tell,
    UnknownFunctionError,
    tell_nobody,
)
from toolchain.records.function import Function, function_id
from toolchain.records.key import RecordKey
from toolchain.records.record import PASSING_FAILURES, Record
from toolchain.records.selection import EVERYTHING, Selection
from toolchain.records.sqlite.file import FILE_NAME, SqliteFile

_DIGESTS = "SELECT DISTINCT digest, failure FROM records"
_CHOICE_FIRST = f"AND {columns.MEASURED} ORDER BY {columns.RANK}"
_KIND = 1 + columns.NAMES.index("kind")  # the row's number is first
_CREATED = 1 + columns.NAMES.index("created")
_OF_GROUP = [columns.NAMES.index(name) for name in columns.GROUP]
_PAGE = 10_000  # rows in memory
_ADD_FUNCTION = (
    "INSERT INTO functions (id, workload, name, definition) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)

# Records of the first page, and of the largest; each is twice as long as the one before.
_PAGES = (64, 4096)
_GROUP_PAGES = (4, 128)  # builds seldom look further than at the first

Usable = Callable[[Record], bool]


class Group(NamedTuple):
    """Records that agree in `columns.GROUP`, whose values are `of`.

    Attributes
    ----------
    records
        With their numbers, in the order of preference; they are read as they are asked for.
    """

    of: tuple[Any, ...]
    records: Iterator[tuple[int, Record]]


def anything(_record: Record) -> bool:
    """Find every record usable."""
    return True


def user_store(tell: Tell = tell_nobody, *, wait: bool = True) -> RecordStore:
    """Open the records that are configured: the team's database, else the file in the data folder.

    Parameters
    ----------
    tell
        Called with what is waited for.
    wait
        Whether a database that does not answer is waited for.

    Raises
    ------
    UsageError
        `records_url` is no address of a database, or what is there is not ours.
    MissingError
        The database's driver is not installed.
    ToolchainError
        It does not answer.
    """
    url = settings().records_url
    if url is None:
        return RecordStore(SqliteFile(data_dir() / FILE_NAME, tell=tell))
    from toolchain.records.postgres.server import connect  # imports the driver

    return RecordStore(connect(url.get_secret_value(), tell, away_s=None if wait else 0))


class RecordStore:
    """The records in one database.

    Parameters
    ----------
    where
        An SQLite file, which is created where it is missing; or a database.
    read_only
        For a file that nobody writes; it must exist.

    Raises
    ------
    UsageError
        The file is damaged, foreign, or of a newer version of this tool.
    ToolchainError
        The file system refused.
    """

    def __init__(self, where: Path | Database, *, read_only: bool = False) -> None:
        self._database = SqliteFile(where, read_only=read_only) if isinstance(where, Path) else where
        self._lock = threading.RLock()  # one connection, several threads
        self._functions: dict[str, Function] = {}  # that were added here
        self._added = 0
        self.unreadable: dict[int, str] = {}
        """Rows that were met and skipped since no record can be made of them, and what is wrong with each."""

    @property
    def name(self) -> str:
        """Where the records are, for people."""
        return self._database.name

    def add_function(self, workload: str, name: str, definition: str) -> str:
        """Keep a function that is about to be measured, once.

        Functions with the same workload hash may differ in the names of their blocks, which
        traces refer to; so each record says which one it is of.

        Parameters
        ----------
        definition
            What is computed, as a text of the backend's own.

        Returns
        -------
        str
            For `Record.function`.
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
        """Return the definition that `add_function` was given."""
        found = self._all("SELECT definition FROM functions WHERE id=?", (identity,))
        if not found or not isinstance(found[0][0], str):
            raise self._database.unreadable(f"there is no function {identity}")
        return found[0][0]

    def add(self, record: Record) -> None:
        """Write one record; it is durable when this returns. Its function must be there."""
        values = rows.values(record)
        with self._lock, self._counted():
            try:
                self._database.run(columns.INSERT, values)
            except ConnectionRenewedError:
                self._database.run(columns.INSERT_NEW, rows.values_if_new(record))
            except UnknownFunctionError:  # somebody cleared away functions without records
                if record.function not in self._functions:
                    raise
                self._database.run(_ADD_FUNCTION, self._functions[record.function])
                self._database.run(columns.INSERT, values)
            self._added += 1

    def add_new(self, functions: Iterable[Function], records: Iterable[Record]) -> int:
        """Write what is not there yet, all of it or none; return how many records that were."""
        with self._lock, self._database.transaction():
            self._database.run_for_each(_ADD_FUNCTION, list(functions))
            return self._database.run_for_each(columns.INSERT_NEW, map(rows.values_if_new, records))

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove records by their numbers, and functions that none is of; all of them or none."""
        with self._lock, self._database.transaction():
            self._database.run_for_each("DELETE FROM records WHERE id=?", [(number,) for number in numbers])
            self._database.run(
                "DELETE FROM functions WHERE NOT EXISTS"
                " (SELECT 1 FROM records WHERE records.function = functions.id)"
            )

    def compact(self) -> None:
        """Give back the space of what was removed."""
        with self._lock:
            self._database.compact()

    def best(self, key: RecordKey, kinds: Sequence[str], usable: Usable = anything) -> Record | None:
        """Return the choice for exactly this key: the last confirmed record, else the fastest.

        What was measured stands before what a model said.
        """
        query = f"{columns.SELECT} WHERE {columns.OF_KEY} {_CHOICE_FIRST}"
        found = self._records(self._all(query, columns.key_values(key)))
        return next((record for _number, record in found if record.kind in kinds and usable(record)), None)

    def bests(self, key: RecordKey, kinds: Sequence[str], usable: Usable = anything) -> list[Record]:
        """Return the choice for every key with the workload, triple and device of this one.

        Parameters
        ----------
        kinds
            Of the records that are asked for.
        usable
            Whether a record of them can be used; the next best of its key is asked where one cannot.
        """
        query = f"{columns.SELECT} WHERE workload=? AND triple=? AND device=? {_CHOICE_FIRST}"
        choices: dict[tuple[Any, ...], Record] = {}
        for row in self._all(query, (key.workload, key.triple, key.device)):
            row_key = row[1 : 1 + len(columns.KEY)]
            if row_key in choices or row[_KIND] not in kinds:
                continue  # most rows of a task that was tuned: nothing is made of them
            for _number, record in self._records([row]):
                if usable(record):
                    choices[row_key] = record
        return list(choices.values())

    def all(self, key: RecordKey | None = None) -> list[Record]:
        """Return every record (of one key), failures included, oldest first."""
        query = f"{columns.SELECT} WHERE {columns.POSSIBLE}"
        values: tuple[columns.Value, ...] = ()
        if key is not None:
            query, values = f"{query} AND {columns.OF_KEY}", columns.key_values(key)
        return [record for _number, record in self._records(self._all(f"{query} ORDER BY id", values))]

    def newest(self, selection: Selection = EVERYTHING) -> Iterator[Record]:
        """Yield the records of a selection, failures included, newest first; pages are read as needed."""
        where, values = selection.where()
        page, longest = _PAGES
        last: tuple[columns.Value, ...] = ()
        while True:
            behind = " AND (created, id) < (?, ?)" if last else ""
            query = (
                f"{columns.SELECT} WHERE {columns.POSSIBLE}{where}{behind}"
                " ORDER BY created DESC, id DESC LIMIT ?"
            )
            found = self._all(query, (*values, *last, page))
            yield from (record for _number, record in self._records(found))
            if len(found) < page:
                return
            last = (found[-1][_CREATED], found[-1][0])
            page = min(longest, 2 * page)

    def count(self, selection: Selection = EVERYTHING) -> int:
        """Return how many records `newest` yields, those included that cannot be read."""
        where, values = selection.where()
        query = f"SELECT count(*) FROM records WHERE {columns.POSSIBLE}{where}"  # noqa: S608  # our own
        return int(self._all(query, values)[0][0])

    def runs(self) -> list[tuple[str, str]]:
        """Return the runs that measured, each with when its last record was created; the last run first."""
        query = "SELECT run, max(created) AS last FROM records GROUP BY run ORDER BY last DESC, run"
        return [(run, last) for run, last in self._all(query)]

    def of_run(self, run: str, limit: int | None = None) -> list[Record]:
        """Return every record of a run, or the first ones, failures included, oldest first."""
        first = f" LIMIT {limit}" if limit is not None else ""
        query = f"{columns.SELECT} WHERE run=? AND {columns.POSSIBLE} ORDER BY created, id{first}"
        return [record for _number, record in self._records(self._all(query, (run,)))]

    def groups(self) -> list[Group]:
        """Return the groups of records that have times, in the order of their keys; see `ranking`."""
        return [
            Group(tuple(row[1 + at] for at in _OF_GROUP), chain(self._records([row]), self._behind(row)))
            for row in self._all(ranking.FIRST)
        ]

    def _behind(self, first: tuple[Any, ...]) -> Iterator[tuple[int, Record]]:
        """Yield the records of a group behind its first one; pages are read as needed."""
        values = tuple(first[1 + at] for at in _OF_GROUP)
        skip, (page, longest) = 1, _GROUP_PAGES
        while True:
            found = self._all(ranking.PAGE, (*values, page, skip))
            yield from self._records(found)
            if len(found) < page:
                return
            skip += page
            page = min(longest, 2 * page)

    def numbers(self, *, failures: bool) -> list[int]:
        """Return the numbers of all records; without failures, of those that claim a time."""
        query = "SELECT id FROM records" if failures else "SELECT id FROM records WHERE failure IS NULL"
        return [row[0] for row in self._all(query)]

    def look_at_all(self) -> None:
        """Make a record of every row, those with impossible times included, to find what is unreadable."""
        last = 0
        while found := self._all(f"{columns.SELECT} WHERE id>? ORDER BY id LIMIT {_PAGE}", (last,)):
            last = found[-1][0]
            for _number, _record in self._records(found):
                pass

    def functions(self) -> list[Function]:
        """Return every function."""
        return [Function(*row) for row in self._all("SELECT id, workload, name, definition FROM functions")]

    def function_names(self) -> dict[str, str]:
        """Return the name of every function by its id."""
        return dict(self._all("SELECT id, name FROM functions"))

    def measured(self, key: RecordKey) -> set[str]:
        """Return the digests of candidates that need no second measurement on this key."""
        query = f"{_DIGESTS} WHERE {columns.OF_KEY} AND {columns.POSSIBLE}"
        found = self._all(query, columns.key_values(key))
        return {digest for digest, failure in found if failure not in PASSING_FAILURES}

    def devices(self, key: RecordKey) -> list[str]:
        """Return the devices that measured this workload on boards of the key's class; `""` is the CPU."""
        query = "SELECT DISTINCT device FROM records WHERE workload=? AND board_class=? AND failure IS NULL"
        return sorted(row[0] for row in self._all(query, (key.workload, key.board_class)))

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _records(self, found: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Record]]:
        for number, *fields in found:
            try:
                yield number, rows.record(fields)
            except rows.UnreadableError as error:
                self.unreadable[number] = str(error)

    def _all(self, query: str, values: tuple[columns.Value, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock, self._counted():
            return self._database.rows(query, values)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Say what is kept where the database goes away."""
        try:
            yield
        except DatabaseGoneError as error:
            kept = f"the {self._added} records that were added are kept, what was under way is not"
            message = f"{error.message}; {kept}" if self._added else error.message
            raise ToolchainError(message, error.hint) from error

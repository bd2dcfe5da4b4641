"""Chooses the record that a build applies to a task."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from toolchain.errors import UsageError
from toolchain.files.plain import read_plain
from toolchain.records.database import UnknownFunctionError
from toolchain.records.exchange import Function, read_line
from toolchain.records.record import Record, RecordKey, level_rank
from toolchain.records.sqlite import SqliteFile
from toolchain.records.store import RecordStore, Usable, anything

# Lookup in a file of exported records. A build needs few lines of it, so only those are parsed.

SHIPPED = Path(__file__).parent / "shipped" / "records.jsonl"
# `write_records` begins lines this way, so the task of a line is known without parsing the line.
_RECORD = re.compile(rb'\{"record":\{"workload":"([^"]*)"')
_FUNCTION = re.compile(rb'\{"function":\{"id":"[^"]*","workload":"([^"]*)"')


class ShippedFile:
    """Lines of the file, grouped by task."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)
        for number, line in enumerate(read_plain(path).splitlines(keepends=True), 1):
            if match := _RECORD.match(line) or _FUNCTION.match(line):
                self._lines[match[1].decode()].append((number, line))

    def store(self, workload: str) -> RecordStore | None:
        """Return an in-memory store with the records of a task; None if there are none.

        Raises
        ------
        UsageError
            One of their lines is damaged.
        """
        lines = self._lines.get(workload)
        if not lines:
            return None
        contents = [read_line(self.path, number, line) for number, line in lines]
        functions = [content for content in contents if isinstance(content, Function)]
        records = [content for content in contents if not isinstance(content, Function)]
        store = RecordStore(SqliteFile(None))
        store.add_new(functions, records)
        return store


@lru_cache(maxsize=2)
def shipped_file(path: Path) -> ShippedFile | None:
    """Return the file of shipped records; None if it does not exist.

    Raises
    ------
    UsageError
        The file cannot be read.
    """
    if not path.exists():
        return None
    try:
        return ShippedFile(path)
    except OSError as error:
        raise UsageError(
            f"the shipped records cannot be read: {path}: {error.strerror}",
            "install this package again",
        ) from error


How = Literal["exact", "other-cpu-or-threads", "lower-level"]


@dataclass(frozen=True)
class Hit:
    """An applicable record, how well its key matches, and the definition of the measured function."""

    record: Record
    how: How
    definition: str
    shipped: bool = False


def lookup(
    store: RecordStore,
    key: RecordKey,
    kinds: Sequence[str],
    *,
    shipped: Path | None = SHIPPED,
    usable: Usable = anything,
) -> Hit | None:
    """Return the closest record of the user's store, else of the shipped records.

    The order is: an exact match; the same level and class with another cpu or number of threads; a lower
    level of the same triple. A record of an emulated board is never used for a real one or the reverse, nor
    that of one device for another. Modelled times are used only when no measured record exists.

    Parameters
    ----------
    kinds
        Kinds of records that the backend can read.
    usable
        Whether the build can use a record of these kinds; if it cannot use the best record of a key, the next
        best is tried.
    shipped
        The file of records to search last, None for no file. It need not exist.
    """
    hit = _nearest(store, key, kinds, usable, shipped=False)
    measured = hit is not None and not hit.record.provenance.modelled
    if measured or shipped is None or (file := shipped_file(shipped)) is None:
        return hit
    brought = file.store(key.workload)
    if brought is None:
        return hit
    with brought:
        other = _nearest(brought, key, kinds, usable, shipped=True)
    return other if hit is None or (other and not other.record.provenance.modelled) else hit


def _nearest(
    store: RecordStore, key: RecordKey, kinds: Sequence[str], usable: Usable, *, shipped: bool
) -> Hit | None:
    bests = store.bests(key, kinds, usable)
    rated = [(rating, record) for record in bests if (rating := _rate(record, key)) is not None]
    rated.sort(key=lambda pair: (not pair[1].provenance.modelled, pair[0]), reverse=True)
    for rating, record in rated:
        with suppress(UnknownFunctionError):  # another process removes it just now
            return Hit(record, _HOW[rating[0]], store.definition(record.function), shipped)
    return None


_HOW: dict[int, How] = {2: "exact", 1: "other-cpu-or-threads", 0: "lower-level"}


def _rate(record: Record, key: RecordKey) -> tuple[int, tuple[int, int], bool, bool, bool, float] | None:
    """Rate how well a record matches `key`: larger is better, None means that it does not apply."""
    recorded = record.key
    rank = level_rank(recorded.level, key.level)
    if rank is None or recorded.emulated != key.emulated or record.best_ms is None:
        return None
    same_class = recorded.board_class == key.board_class
    if recorded == key:
        how = 2
    elif recorded.level == key.level:
        if not same_class:
            return None
        how = 1
    else:
        how = 0
    return how, rank, same_class, recorded.cpu == key.cpu, recorded.threads == key.threads, -record.best_ms

"""Lookup in a file of exported records. A build needs few lines of it, so only those are parsed."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

from toolchain.errors import UsageError
from toolchain.files.plain import read_plain
from toolchain.records.exchange import Function, read_line
from toolchain.records.sqlite.file import SqliteFile
from toolchain.records.store import RecordStore

SHIPPED = Path(__file__).parent / "records.jsonl"
# `write_records` begins lines this way, so the task of a line is known without parsing the line.
_RECORD = re.compile(rb'\{"record":\{"workload":"([^"]*)"')
_FUNCTION = re.compile(rb'\{"function":\{"id":"[^"]*","workload":"([^"]*)"')


class ShippedFile:
    """Lines of the file, grouped by task."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)
        for number, line in enumerate(read_plain(path).splitlines(keepends=True), 1):
            if found := _RECORD.match(line) or _FUNCTION.match(line):
                self._lines[found[1].decode()].append((number, line))

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
        found = [read_line(self.path, number, line) for number, line in lines]
        functions = [each for each in found if isinstance(each, Function)]
        records = [each for each in found if not isinstance(each, Function)]
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

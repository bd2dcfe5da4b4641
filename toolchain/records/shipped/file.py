"""Looking up records in a file of `records export`, of which a build needs a few lines."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

from toolchain.errors import UsageError
from toolchain.files.plain import read_plain
from toolchain.records.exchange import read_line
from toolchain.records.function import Function
from toolchain.records.sqlite.file import SqliteFile
from toolchain.records.store import RecordStore

SHIPPED = Path(__file__).parent / "records.jsonl"
# As `write_records` begins its lines: what a line is of is seen without parsing it.
_RECORD = re.compile(rb'\{"record":\{"workload":"([^"]*)"')
_FUNCTION = re.compile(rb'\{"function":\{"id":"[^"]*","workload":"([^"]*)"')


class ShippedFile:
    """The lines of a file, by what they are of."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)
        for number, line in enumerate(read_plain(path).splitlines(keepends=True), 1):
            if found := _RECORD.match(line) or _FUNCTION.match(line):
                self._lines[found[1].decode()].append((number, line))

    def store(self, workload: str) -> RecordStore | None:
        """Return the records of a task, in memory; None where there are none.

        Raises
        ------
        UsageError
            A line of them is damaged.
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
    """Return what is shipped; None where nothing is.

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
            f"the records that are shipped cannot be read: {path}: {error.strerror}",
            "install this package again",
        ) from error

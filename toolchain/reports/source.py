"""Reads the records of a report from a store or an exported file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from toolchain.errors import UsageError
from toolchain.files.plain import open_plain
from toolchain.records.distill import unreadable_warning
from toolchain.records.exchange import read_records
from toolchain.records.record import Record
from toolchain.records.store import RecordStore, user_store
from toolchain.reports.runs import chosen_run

_SQLITE = b"SQLite format 3\0"


class ReportRecords(NamedTuple):
    """Records that include those of the requested run.

    Attributes
    ----------
    names
        `Record.function` -> name of the function.
    skipped
        A warning about unreadable records.
    """

    records: Sequence[Record]
    names: Mapping[str, str]
    skipped: str | None = None


def records_in(path: Path | None, run: str | None, board: str | None = None) -> ReportRecords:
    """Return the records of a store or of an exported file; None for the user's store.

    Parameters
    ----------
    run
        Prefix of the requested run's id; None for the last run.
    board
        A board, or a class of boards, that the run has measured on; None for any.

    Raises
    ------
    UsageError
        The file does not exist or has no records; or there is no such run, or the prefix is ambiguous.
    ToolchainError
        The store does not answer.
    """
    if path is None:
        with user_store() as store:
            return of_store(store, run, board)
    try:
        with open_plain(path) as file:
            is_store = file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", "name a store of records, or what `toolchain records export` wrote"
        ) from error
    if is_store:
        # A store in use has its latest records in files beside it; a read-only file is complete by itself.
        in_use = path.with_name(f"{path.name}-wal").exists()
        with RecordStore(path, read_only=not in_use) as store:
            return of_store(store, run, board)
    functions, records = read_records(path)
    records.sort(key=lambda record: record.created)  # a file has them in any order
    if board is not None:
        runs = {r.provenance.run for r in records if board in (r.provenance.board, r.key.board_class)}
        if records and not runs:
            raise _not_on(board)
        records = [record for record in records if record.provenance.run in runs]
    return ReportRecords(records, {function.id: function.name for function in functions})


def of_store(store: RecordStore, run: str | None, board: str | None = None) -> ReportRecords:
    """Return a store's records of a run; errors are those of `records_in`.

    Runs without readable records are skipped, unless one is requested.
    """
    runs = store.runs(board)
    if board is not None and not runs and store.runs():
        raise _not_on(board)
    identities = [chosen_run(runs, run)] if run or not runs else [identity for identity, _last in runs]
    records = next(filter(None, map(store.of_run, identities)), [])
    return ReportRecords(records, store.function_names(), unreadable_warning(store))


def _not_on(board: str) -> UsageError:
    return UsageError(
        f"--board {board}: no tuning run of these records has measured on it",
        "`toolchain records list` names the boards",
    )

"""`toolchain records`: the records of tuning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toolchain.cli.options import Moment, gathered
from toolchain.cli.output import emit, note, output_options, print_json_list, table, wants_json
from toolchain.errors import UsageError
from toolchain.quantities import counted, shown_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.records.database import Selection
    from toolchain.records.distill import BuildVariant
    from toolchain.records.exchange import Function as RecordedFunction
    from toolchain.records.record import Record


_WIDEST = 64  # characters of a cell; names of our classes, cores and levels are shorter
_LIMIT = 50  # default number of records to list


Function = TypeVar("Function", bound=Callable[..., Any])


def _selection(tasks: tuple[str, ...], classes: tuple[str, ...], kinds: tuple[str, ...]) -> Selection:
    from toolchain.records.database import Selection

    return Selection(tasks, classes, kinds)


def selection_options(function: Function) -> Function:
    """Add `--task`, `--class` and `--kind`; the command gets them as `selection`."""
    decorated = gathered("selection", _selection)(function)
    for option in reversed(
        (
            click.option(
                "--task", "tasks", metavar="ID", multiple=True, help="Only of this task; may be repeated."
            ),
            click.option(
                "--class", "classes", metavar="CLASS", multiple=True, help="Only of this class; likewise."
            ),
            click.option(
                "--kind", "kinds", metavar="KIND", multiple=True, help="Only of this kind; likewise."
            ),
        )
    ):
        decorated = option(decorated)
    return decorated


def note_unknown_classes(selection: Selection) -> None:
    """Print the classes of a selection that do not exist."""
    from toolchain.profiles import class_names
    from toolchain.records.record import EMULATED

    for name in selection.classes:
        if name.removesuffix(EMULATED) not in class_names():
            note(f"there is no board class {name!r}; the classes are: {', '.join(class_names())}")


def builds() -> list[BuildVariant]:
    """Return the kinds of builds, each with the records that it can use."""
    from toolchain.backends.table import backend_rows

    return [build for row in backend_rows() for build in row.builds]


format_option = click.option(
    "--format",
    "file_format",
    type=click.Choice(["text", "metaschedule"]),
    default="text",
    show_default=True,
    help="text, or MetaSchedule's JSON database for traces of --layout NCHW|NHWC; then FILE is a folder.",
)


@click.group()
@output_options
def records() -> None:
    """List, export, import and thin out records of tuning."""


@records.command("list")
@selection_options
@click.option("--board", "boards", metavar="B", multiple=True, help="Only of this board; may be repeated.")
@click.option(
    "--since", type=Moment(), metavar="TIME", help="Only since this day or time (2026-11-23[T18:00])."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Only the newest N; default: {_LIMIT}, with --json all of them.",
)
@output_options
def list_records(selection: Selection, boards: tuple[str, ...], since: str | None, limit: int | None) -> None:
    """List records, the newest first, failures included."""
    from toolchain.api.records import open_records

    chosen = replace(selection, boards=boards, since=since or "")
    limit = limit if limit is not None or wants_json() else _LIMIT
    with open_records(note) as store:
        newest = islice(store.newest(chosen), limit)
        if wants_json():
            print_json_list(map(_row, newest))
        else:
            _show(list(newest))
        count = store.count(chosen)
    if count == 0:
        note_unknown_classes(chosen)
    if limit is not None and (more := count - limit) > 0:
        note(f"… and {more} more: --limit N shows more; --task, --board and --since filter them")


@records.command()
@selection_options
@output_options
def best(selection: Selection) -> None:
    """List the records that builds apply: one for each task, cpu and board class.

    A task tuned in packed and in other layouts, or with and without winograd, has one of each; column WITH
    shows the options of builds that use another record than builds without options.
    """
    from toolchain.api.records import open_records
    from toolchain.records.distill import used_records

    with open_records(note) as store:
        chosen = [entry for entry in used_records(store, builds()) if entry.record in selection]
    if not chosen:
        note_unknown_classes(selection)
    options = ["" if "" in entry.options else ", ".join(entry.options) for entry in chosen]
    records = [entry.record for entry in chosen]
    if wants_json():
        both = zip(records, options, strict=True)
        print_json_list({**_row(record), "options": of_record} for record, of_record in both)
    else:
        _show(records, options)


def _show(records: Sequence[Record], options: Sequence[str] | None = None) -> None:
    """Print records; `options` are the options of the builds that use each, if they were requested."""
    head = ["TASK", "CLASS", "CPU", "DEVICE", "LEVEL", "THREADS", "KIND", "TIME", "MEASURED"]
    more: list[list[str]] = [[] for _ in records]
    if options is not None:
        head.append("WITH")
        more = [[text] for text in options]
    table(
        head,
        [
            (
                record.key.workload[:8],
                _cell(record.key.board_class),
                _cell(record.key.cpu),
                _cell(record.key.device or "cpu"),
                _cell(record.key.level),
                record.key.threads,
                _cell(_kind(record)),
                record.failure or f"{shown_ms(record.best_ms)}{_by_model(record)}",
                _cell(record.created),
                *cells,
            )
            for record, cells in zip(records, more, strict=True)
        ],
    )


def _cell(text: str) -> str:
    """Return a text, shortened so that it does not widen its column; --json has all of it."""
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _by_model(record: Record) -> str:
    return " (model)" if record.provenance.modelled else ""


def _kind(record: Record) -> str:
    excluded = record.provenance.excluded
    return f"{record.kind} without {excluded}" if excluded else record.kind


def _row(record: Record) -> dict[str, Any]:
    return {
        **vars(record.key),
        "kind": record.kind,
        "best_ms": record.best_ms,
        "failure": record.failure,
        "confirmed": record.confirmed,
        "created": record.created,
        **vars(record.provenance),
    }


@records.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@selection_options
@click.option("--best", is_flag=True, help="Only the records that builds apply.")
@format_option
@output_options
def export_records(file: Path, selection: Selection, best: bool, file_format: str) -> None:
    """Write records to FILE, one per line, for another user or machine."""
    from toolchain.api.records import open_records
    from toolchain.backends.table import metaschedule
    from toolchain.records.distill import used_records
    from toolchain.records.exchange import write_records

    with open_records(note) as store:
        stored: list[Record] = (
            [entry.record for entry in used_records(store, builds())] if best else store.all()
        )
        chosen = [record for record in stored if record in selection]
        if not chosen:
            raise UsageError(
                f"none of {counted(len(stored), 'record')} in {store.name} fits; nothing was exported",
                "`toolchain records list` shows them",
            )
        known = store.functions()
    if file_format == "metaschedule":
        functions, records = metaschedule().write(file, {function.id: function for function in known}, chosen)
    else:
        functions, records = write_records(file, known, chosen)
    emit(
        {"file": str(file.absolute()), "functions": functions, "records": records},
        lambda: click.echo(f"{counted(records, 'record')} of {counted(functions, 'function')}: {file}"),
    )


@records.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@format_option
@click.option(
    "--board", metavar="B", help="With --format metaschedule: the board or board class that measured."
)
@output_options
def import_records(file: Path, file_format: str, board: str | None) -> None:
    """Import the records of FILE, all of them or none; existing ones are not duplicated."""
    from toolchain.api.records import open_records

    functions, records = _read(file, file_format, board)
    read = len(records)
    with open_records(note) as store:
        # MetaSchedule's files do not say which run measured a record.
        new = store.add_new(functions, records, of_any_run=file_format == "text")
        where = store.name
    emit(
        {"file": str(file.absolute()), "store": where, "records": read, "new": new},
        lambda: click.echo(
            f"{counted(read, 'record')}, {new} of them new, {'is' if read == 1 else 'are'} in {where}"
        ),
    )


def _read(file: Path, file_format: str, board: str | None) -> tuple[list[RecordedFunction], list[Record]]:
    if file_format == "text":
        from toolchain.records.exchange import read_records

        if board is not None:
            raise UsageError(
                f"--board {board}: records of text say themselves which board measured", "leave --board out"
            )
        return read_records(file)
    if board is None:
        raise UsageError(
            "--format metaschedule: its records do not say which board measured", "name it: --board B"
        )
    from toolchain.backends.table import metaschedule
    from toolchain.boards.inventory.lookup import find_target

    return metaschedule().read(file, find_target(board))


@records.command("distill")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="K",
    help="Candidates to keep per task, for each cpu, board class and kind of build.",
)
@click.option(
    "--keep-failures", is_flag=True, help="Keep failures too, so that the next run does not try them again."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@output_options
def distill_records(keep: int, keep_failures: bool, dry_run: bool) -> None:
    """Remove all records but the best, and shrink the file.

    Builds apply the same records as before; the next run of `tune` may measure removed candidates again.
    """
    from toolchain.api.records import open_records
    from toolchain.records.distill import distill

    with open_records(note) as store:
        done = distill(store, builds(), keep, failures=keep_failures, dry_run=dry_run)
        where = store.name
    verb = "would be removed" if dry_run else "were removed"

    def print_text() -> None:
        slower, failed = done.removed, done.removed_failures
        what = f"{counted(slower, 'slower record')} and {counted(failed, 'failure')}"
        click.echo(f"{what} {verb}; {done.kept} kept: {where}")

    emit({"store": where, "dry_run": dry_run, **asdict(done)}, print_text)


@records.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@output_options
def repair(dry_run: bool) -> None:
    """Remove the records that cannot be read, and nothing else.

    Commands skip such records with a warning: those that another program wrote, and those with impossible
    times.
    """
    from toolchain.records import distill as repairing
    from toolchain.records.store import user_store

    with user_store(note) as store:
        removed = repairing.repair(store, dry_run=dry_run)
        where = store.name
    rows = [{"row": number, "problem": problem} for number, problem in removed.items()]

    def print_text() -> None:
        if rows:
            table(["ROW", "PROBLEM"], [tuple(row.values()) for row in rows])
        verb = "would be removed" if dry_run else "was removed" if len(rows) == 1 else "were removed"
        click.echo(f"{counted(len(rows), 'record')} {verb}: {where}")

    emit({"store": where, "dry_run": dry_run, "removed": rows}, print_text)

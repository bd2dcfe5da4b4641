"""`toolchain records export`, `import` and `distill`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from toolchain.cli.output import emit, note, output_options
from toolchain.errors import UsageError
from toolchain.quantities import counted

if TYPE_CHECKING:
    from toolchain.records.database import Selection
    from toolchain.records.distill import BuildVariant
    from toolchain.records.exchange import Function as RecordedFunction
    from toolchain.records.record import Record

Function = TypeVar("Function", bound=Callable[..., Any])


def selection_options(function: Function) -> Function:
    """Add `--task`, `--class` and `--kind`; the command gets them as `selection`."""

    @click.option("--task", "tasks", metavar="ID", multiple=True, help="Only of this task; may be repeated.")
    @click.option("--class", "classes", metavar="CLASS", multiple=True, help="Only of this class; likewise.")
    @click.option("--kind", "kinds", metavar="KIND", multiple=True, help="Only of this kind; likewise.")
    @functools.wraps(function)
    def called(
        *args: Any, tasks: tuple[str, ...], classes: tuple[str, ...], kinds: tuple[str, ...], **options: Any
    ) -> Any:
        from toolchain.records.database import Selection

        return function(*args, selection=Selection(tasks, classes, kinds), **options)

    return cast(Function, called)


def note_unknown_classes(selection: Selection) -> None:
    """Say which classes of a selection that fits no record do not exist at all."""
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


@click.command("export")
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
        found: list[Record] = [each.record for each in used_records(store, builds())] if best else store.all()
        chosen = [record for record in found if record in selection]
        if not chosen:
            raise UsageError(
                f"none of {counted(len(found), 'record')} in {store.name} fits; nothing was exported",
                "`toolchain records list` shows them",
            )
        known = store.functions()
    if file_format == "metaschedule":
        functions, records = metaschedule().write(file, {each.id: each for each in known}, chosen)
    else:
        functions, records = write_records(file, known, chosen)
    emit(
        {"file": str(file.absolute()), "functions": functions, "records": records},
        lambda: click.echo(f"{counted(records, 'record')} of {counted(functions, 'function')}: {file}"),
    )


@click.command("import")
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


@click.command("distill")
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

    def tell() -> None:
        slower, failed = done.removed, done.removed_failures
        what = f"{counted(slower, 'slower record')} and {counted(failed, 'failure')}"
        click.echo(f"{what} {verb}; {done.kept} kept: {where}")

    emit({"store": where, "dry_run": dry_run, **asdict(done)}, tell)


COMMANDS = [export_records, import_records, distill_records]

"""`toolchain records`: the records of tuning."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.commands import records_exchange, records_repair
from toolchain.cli.commands.records_exchange import builds, note_unknown_classes, selection_options
from toolchain.cli.options import Moment
from toolchain.cli.output import note, output_options, print_json_list, table, wants_json
from toolchain.quantities import shown_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.records.database import Selection
    from toolchain.records.record import Record

_WIDEST = 64  # characters of a cell; names of our classes, cores and levels are shorter


_LIMIT = 50  # default number of records to list


@click.group()
@output_options
def command() -> None:
    """List, export, import and thin out records of tuning."""


@command.command("list")
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


@command.command()
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
        chosen = [each for each in used_records(store, builds()) if each.record in selection]
    if not chosen:
        note_unknown_classes(selection)
    options = ["" if "" in each.options else ", ".join(each.options) for each in chosen]
    records = [each.record for each in chosen]
    if wants_json():
        both = zip(records, options, strict=True)
        print_json_list({**_row(record), "options": own} for record, own in both)
    else:
        _show(records, options)


for _each in (*records_exchange.COMMANDS, records_repair.repair):
    command.add_command(_each)


def _show(records: Sequence[Record], options: Sequence[str] | None = None) -> None:
    """Print records; `options` are the options of the builds that use each, if they were requested."""
    head = ["TASK", "CLASS", "CPU", "DEVICE", "LEVEL", "THREADS", "KIND", "TIME", "MEASURED"]
    more: list[list[str]] = [[] for _ in records]
    if options is not None:
        head.append("WITH")
        more = [[own] for own in options]
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
                *own,
            )
            for record, own in zip(records, more, strict=True)
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

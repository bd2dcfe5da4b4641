"""`toolchain records`: what tuning has measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.commands import records_exchange, records_repair
from toolchain.cli.commands.records_exchange import builds, selection_options
from toolchain.cli.output import emit, output_options, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.records.record import Record
    from toolchain.records.selection import Selection

_WIDEST = 64  # characters of a cell; a class, a core or a level of ours has fewer


@click.group()
@output_options
def command() -> None:
    """List, hand on and thin out what tuning has measured."""


@command.command("list")
@selection_options
@output_options
def list_records(selection: Selection) -> None:
    """List every measured candidate, oldest first, failures included."""
    from toolchain.cli.store import user_store

    with user_store() as store:
        _emit([record for record in store.all() if record in selection])


@command.command()
@selection_options
@output_options
def best(selection: Selection) -> None:
    """List what a build applies: one record for each task, cpu and board class.

    A task that was tuned in packed and in other layouts, or with and without winograd, has one of each; the
    column WITH has the options of builds that take another one than builds without options.
    """
    from toolchain.cli.store import user_store
    from toolchain.records.selection import taken

    with user_store() as store:
        ranked = list(store.ranked())
    sorts = [
        (build, {number for number, record in taken(ranked, [build]) if record.kind in build.kinds})
        for build in builds()
    ]
    chosen = [(number, record) for number, record in taken(ranked, builds()) if record in selection]
    options = [[build.options for build, numbers in sorts if number in numbers] for number, _record in chosen]
    records = [record for _number, record in chosen]
    _emit(records, ["" if "" in own else ", ".join(own) for own in options])


for _each in (*records_exchange.COMMANDS, records_repair.repair):
    command.add_command(_each)


def _emit(records: Sequence[Record], options: Sequence[str] | None = None) -> None:
    """Print records; `options` are those of the builds that take them, where that was asked."""
    head = ["TASK", "CLASS", "CPU", "DEVICE", "LEVEL", "THREADS", "KIND", "MS", "MEASURED"]
    more: list[dict[str, str]] = [{} for _ in records]
    if options is not None:
        head.append("WITH")
        more = [{"options": own} for own in options]
    emit(
        [{**_row(record), **own} for record, own in zip(records, more, strict=True)],
        lambda: table(
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
                    record.failure or f"{record.best_ms:.3f}{_by_model(record)}",
                    _cell(record.created),
                    *own.values(),
                )
                for record, own in zip(records, more, strict=True)
            ],
        ),
    )


def _cell(text: str) -> str:
    """Return a text that does not widen the column for all others; --json has the whole of it."""
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _by_model(record: Record) -> str:
    return " (model)" if record.provenance.modelled else ""


def _kind(record: Record) -> str:
    excluded = record.provenance.excluded
    return f"{record.kind} without {excluded}" if excluded else record.kind


def _row(record: Record) -> dict[str, Any]:
    return {
        **asdict(record.key),
        "kind": record.kind,
        "best_ms": record.best_ms,
        "failure": record.failure,
        "confirmed": record.confirmed,
        "created": record.created,
        **asdict(record.provenance),
    }

"""`toolchain records`: what tuning has measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.commands import records_exchange
from toolchain.cli.commands.records_exchange import builds, selection_options
from toolchain.cli.output import emit, output_options, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.records.record import Record
    from toolchain.records.selection import Selection


@click.group()
@output_options
def command() -> None:
    """List, hand on and thin out what tuning has measured."""


@command.command("list")
@selection_options
@output_options
def list_records(selection: Selection) -> None:
    """List every measured candidate, oldest first, failures included."""
    from toolchain.records.store import user_store

    with user_store() as store:
        _emit([record for record in store.all() if record in selection])


@command.command()
@selection_options
@output_options
def best(selection: Selection) -> None:
    """List what a build applies: one record for each task, cpu and board class.

    A task that was tuned in packed and in other layouts, or with and without winograd, has one of each.
    """
    from toolchain.records.selection import taken
    from toolchain.records.store import user_store

    with user_store() as store:
        chosen = [record for _number, record in taken(store.ranked(), builds())]
    _emit([record for record in chosen if record in selection])


for _each in records_exchange.COMMANDS:
    command.add_command(_each)


def _emit(records: Sequence[Record]) -> None:
    emit(
        [_row(record) for record in records],
        lambda: table(
            ["TASK", "CLASS", "CPU", "DEVICE", "LEVEL", "THREADS", "KIND", "MS", "MEASURED"],
            [
                (
                    record.key.workload[:8],
                    record.key.board_class,
                    record.key.cpu,
                    record.key.device or "cpu",
                    record.key.level,
                    record.key.threads,
                    _kind(record),
                    record.failure or f"{record.best_ms:.3f}",
                    record.created,
                )
                for record in records
            ],
        ),
    )


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

"""`toolchain records`: what tuning has measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.output import emit, output_options, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.records.record import Record


@click.group()
@output_options
def command() -> None:
    """List what tuning has measured."""


@command.command("list")
@output_options
def list_records() -> None:
    """List every measured candidate, oldest first, failures included."""
    from toolchain.records.store import user_store

    with user_store() as store:
        records = store.all()
    _emit(records)


@command.command()
@output_options
def best() -> None:
    """List what a build applies: one record for each task, cpu and board class.

    A task that was tuned in packed and in other layouts, or with and without winograd, has one of each.
    """
    from toolchain.backends.table import BACKENDS
    from toolchain.records.store import user_store

    builds = [build for offer in BACKENDS for build in offer.builds]
    with user_store() as store:
        keys = dict.fromkeys(record.key for record in store.all())
        found = [store.best(key, kinds, usable) for key in keys for kinds, usable in builds]
    records = list(dict.fromkeys(record for record in found if record))
    _emit(records)


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

"""`toolchain records repair`."""

from __future__ import annotations

import click

from toolchain.cli.output import emit, note, output_options, table
from toolchain.quantities import counted


@click.command()
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

    def tell() -> None:
        if rows:
            table(["ROW", "PROBLEM"], [tuple(row.values()) for row in rows])
        verb = "would be removed" if dry_run else "was removed" if len(rows) == 1 else "were removed"
        click.echo(f"{counted(len(rows), 'record')} {verb}: {where}")

    emit({"store": where, "dry_run": dry_run, "removed": rows}, tell)

"""`toolchain cache`: files that can be made again."""

from __future__ import annotations

import click

from toolchain.cli.output import emit, output_options, table
from toolchain.quantities import counted


@click.group()
@output_options
def command() -> None:
    """List and prune files that can be made again."""


@command.command("list")
@output_options
def list_cache() -> None:
    """List the content of the cache folder, with sizes."""
    from toolchain.cache import list_entries

    entries = list_entries()
    rows = [entry.to_json() for entry in entries]

    def tell() -> None:
        table(
            ["KIND", "MIB", "IN USE", "PATH"],
            [(e.kind, f"{e.mib:.1f}", "yes" if e.current else "no", e.path) for e in entries],
        )

    emit(rows, tell)


@command.command()
@click.option("--all", "everything", is_flag=True, help="Remove everything, including what is in use.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@output_options
def prune(everything: bool, dry_run: bool) -> None:
    """Remove what this version no longer uses."""
    from toolchain.cache import prune

    removed = prune(everything=everything, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"

    def tell() -> None:
        total = sum(entry.mib for entry in removed)
        for entry in removed:
            click.echo(f"{verb} {entry.path} ({entry.mib:.1f} MiB)")
        click.echo(f"{verb} {counted(len(removed), 'entry', 'entries')}, {total:.1f} MiB")

    emit({"dry_run": dry_run, "removed": [entry.to_json() for entry in removed]}, tell)

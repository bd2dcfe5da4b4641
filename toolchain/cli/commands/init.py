"""`toolchain init`: a first configuration file."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.output import emit, output_options


@click.command()
@output_options
def command() -> None:
    """Write a first toolchain.toml.

    Every key stands in it, commented, with its default. A file that is there already is left alone.
    """
    from toolchain.configuration.starter import write_starter

    file = write_starter(Path.cwd())
    emit({"file": file}, lambda: click.echo(f"wrote {file}: every key is commented, with its default"))

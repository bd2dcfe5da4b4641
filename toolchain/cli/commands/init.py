"""`toolchain init`: writes a first configuration file."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.output import emit, output_options


@click.command()
@output_options
def command() -> None:
    """Write a first toolchain.toml.

    It has every key with its default, commented out. An existing file is not changed.
    """
    from toolchain.configuration.keys import write_starter

    file = write_starter(Path.cwd())
    emit({"file": file}, lambda: click.echo(f"wrote {file}: every key is commented, with its default"))

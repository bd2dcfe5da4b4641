"""`toolchain image bootstrap`."""

from __future__ import annotations

import click

from toolchain.cli.output import emit, note, output_options


@click.command("bootstrap")
@click.option("--anew", is_flag=True, help="Make it again, from today's packages.")
@output_options
def command(anew: bool) -> None:
    """Make the Debian that images are based on, from packages; or pull the pinned debian_image.

    `image build` does this by itself if it is missing.
    """
    from toolchain.images.debian.bootstrap import ensure_debian
    from toolchain.images.engine import connect

    with connect() as engine:
        name = ensure_debian(engine, note, anew=anew)
    emit({"tag": name}, lambda: click.echo(f"{name} is ready"))

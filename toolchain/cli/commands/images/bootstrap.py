"""`toolchain image bootstrap`."""

from __future__ import annotations

import click

from toolchain.cli.output import emit, note, output_options


@click.command("bootstrap")
@click.option("--anew", is_flag=True, help="Make it again, from the packages as they are today.")
@output_options
def command(anew: bool) -> None:
    """Make the Debian that images stand on, from packages; or fetch the pinned debian_image.

    `image build` does it by itself when it is not there.
    """
    from toolchain.images.debian.bootstrap import ensure_debian
    from toolchain.images.engine import connect

    with connect() as engine:
        name = ensure_debian(engine, note, anew=anew)
    emit({"tag": name}, lambda: click.echo(f"{name} is ready"))

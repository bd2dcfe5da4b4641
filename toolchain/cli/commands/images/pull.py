"""`toolchain image pull`."""

from __future__ import annotations

import click

from toolchain.cli import complete
from toolchain.cli.output import note, output_options


@click.command("pull")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete.images)
@click.option(
    "--registry",
    metavar="HOST[:PORT][/PREFIX]",
    required=True,
    help="Registry to pull from; an image is HOST[:PORT][/PREFIX]/edge-toolchain/NAME there.",
)
@output_options
def command(names: tuple[str, ...], registry: str) -> None:
    """Pull images from a registry in place of local ones; default: all but optional ones.

    Docker's own configuration has the credentials: `docker login HOST`.
    """
    from toolchain.cli.commands.images.several import named, report
    from toolchain.images.catalogue import usual
    from toolchain.images.engine import connect
    from toolchain.images.registry.exchange import checked_registry, pull

    where = checked_registry(registry)
    with connect() as engine:
        report(
            named(names or usual()),
            lambda image: pull(engine, image, where, note).to_json(),
            {"REFERENCE": lambda row: row["reference"]},
        )

"""`toolchain image push`."""

from __future__ import annotations

import click

from toolchain.cli import complete
from toolchain.cli.output import note, output_options


@click.command("push")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete.images)
@click.option(
    "--registry",
    metavar="HOST[:PORT][/PREFIX]",
    required=True,
    help="Registry to push to; an image becomes HOST[:PORT][/PREFIX]/edge-toolchain/NAME.",
)
@output_options
def command(names: tuple[str, ...], registry: str) -> None:
    """Push images to a registry; default: all that exist here.

    Docker's own configuration has the credentials: `docker login HOST`.
    """
    from toolchain.cli.commands.images.several import named_or_here, report
    from toolchain.images.engine import connect
    from toolchain.images.registry.exchange import checked_registry, push

    where = checked_registry(registry)
    with connect() as engine:
        report(
            named_or_here(engine, names),
            lambda image: push(engine, image, where, note).to_json(),
            {"REFERENCE": lambda row: row["reference"]},
        )

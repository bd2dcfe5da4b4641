"""`toolchain image build`."""

from __future__ import annotations

import click

from toolchain.cli import complete
from toolchain.cli.output import emit, note, output_options, table


def _parse_pairs(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for (key, equals, _rest), value in zip(pairs, values, strict=True):
        if not equals or not key:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE")
    return {key: rest for key, _equals, rest in pairs}


@click.command("build")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete.images)
@click.option(
    "--build-arg",
    "build_args",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_parse_pairs,
    help="An ARG of the named images' Dockerfiles; the value of a KEY_ARCHIVE is a file of this machine.",
)
@click.option("--no-cache", is_flag=True, help="Make the named images again, without Docker's cache.")
@click.option("--dry-run", is_flag=True, help="Only say what would be made.")
@output_options
def command(names: tuple[str, ...], build_args: dict[str, str], no_cache: bool, dry_run: bool) -> None:
    """Make images that are absent or out of date, after the images they are based on; default: all.

    mali-model is made only if it is named: it takes minutes, and few need it.
    """
    from toolchain.images.engine import connect
    from toolchain.images.making.build import build_images, to_build

    with connect() as engine:
        if dry_run:
            plan = to_build(engine, names, build_args=build_args, no_cache=no_cache)
            document = [{**state.to_json(), "make": wanted} for _, state, wanted in plan]
            rows = [(s.name, s.word, "make" if wanted else "leave") for _, s, wanted in plan]
            emit(document, lambda: table(["NAME", "STATE", "ACTION"], rows))
            return
        built = build_images(engine, names, build_args=build_args, no_cache=no_cache, progress=note)

    def tell() -> None:
        rows = [
            (
                b.state.name,
                b.state.tag,
                f"{b.state.size_mib:.0f} MiB",
                f"{b.seconds:.0f} s" if b.made else "-",
            )
            for b in built
        ]
        table(["NAME", "TAG", "SIZE", "MADE IN"], rows)

    emit([b.to_json() for b in built], tell)

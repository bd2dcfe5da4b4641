"""`toolchain release inspect`: shows a release."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.options import bundle_argument
from toolchain.cli.output import emit, note, output_options, table


@click.command()
@bundle_argument
@output_options
def inspect(bundle: Path) -> None:
    """Show a bundle's release. Its signatures are not checked: `release verify` does that."""
    from toolchain.releases.signed_release import describe, open_release, summary

    release = open_release(bundle)
    document = {
        **describe(release),
        "statement": release.statement.model_dump(mode="json", by_alias=True),
    }

    def tell() -> None:
        for line in summary(release):
            click.echo(line)
        click.echo()
        table(["PART", "BYTES", "SHA-256"], [(p.name, p.size, p.sha256[:16]) for p in release.parts])
        click.echo()
        table(["ORIGIN", ""], list(release.release.provenance.items()))
        note("the signatures were not checked: toolchain release verify BUNDLE --trust FILE")

    emit(document, tell)

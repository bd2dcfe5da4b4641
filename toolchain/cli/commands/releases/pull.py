"""`toolchain release pull`: fetches a release from an OCI registry."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.options import output_path
from toolchain.cli.output import emit, output_options
from toolchain.cli.release_options import allowed_keys_option


@click.command()
@click.argument("address", metavar="REGISTRY/REPOSITORY:TAG")
@output_path("FILE", "The bundle to write; its release goes to FILE.release.")
@allowed_keys_option
@output_options
def pull(address: str, output: Path, trust: Path) -> None:
    """Fetch a bundle and its release from an OCI registry, and check both before they get their names.

    REGISTRY/REPOSITORY@sha256:… is the release that `push` sent, wherever tags lead by now. Docker's own
    configuration has the credentials: `docker login HOST`.
    """
    from toolchain.releases.registry.artifact import parse_address
    from toolchain.releases.registry.exchange import pull
    from toolchain.releases.signed_release import read_release_keys

    target = parse_address(address)
    digest, signed = pull(target, output, read_release_keys(trust))
    document = {
        "reference": str(target.pinned(digest)),
        "digest": digest,
        "bundle": str(output.absolute()),
        "app": signed.release.app,
        "version": signed.release.version,
    }
    what = f"{signed.release.app} {signed.release.version}"
    emit(document, lambda: click.echo(f"wrote {output} and {output}.release: {what}"))

"""`toolchain release push`: sends a release to an OCI registry."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.options import bundle_argument
from toolchain.cli.output import emit, output_options


@click.command()
@click.argument("address", metavar="REGISTRY/REPOSITORY:TAG")
@bundle_argument
@output_options
def push(address: str, bundle: Path) -> None:
    """Send a bundle and its release to an OCI registry, as one artifact of two layers.

    Docker's own configuration has the credentials: `docker login HOST`.
    """
    from toolchain.releases.registry.address import push_address
    from toolchain.releases.registry.exchange import push
    from toolchain.releases.signed import open_release

    target = push_address(address)
    signed = open_release(bundle)
    digest = push(target, signed.bundle, signed.file, signed.release.app, signed.release.version)
    reference = str(target.pinned(digest))
    document = {
        "reference": reference,
        "digest": digest,
        "app": signed.release.app,
        "version": signed.release.version,
    }
    emit(document, lambda: click.echo(f"pushed {signed.release.app} {signed.release.version}: {reference}"))

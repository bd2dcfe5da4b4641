"""`toolchain release push`: sends a release to an OCI registry."""

from __future__ import annotations

from pathlib import Path
from threading import Event

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
    from toolchain.errors import ToolchainError
    from toolchain.events.rollouts import ReleaseStored
    from toolchain.releases.export import Delivery
    from toolchain.releases.signed_release import open_release
    from toolchain.rollouts.carriers import carrier_to

    carrier = carrier_to(address)
    place = carrier.address(address)
    signed = open_release(bundle)
    app, version = signed.release.app, signed.release.version
    events = carrier.send(Delivery(signed), place, Event())
    stored = [event for event in events if isinstance(event, ReleaseStored)]
    if not stored:
        raise ToolchainError(f"carrier {carrier.name} does not say where it put the release")
    reference, digest = stored[-1].place, f"sha256:{stored[-1].sha256}"
    document = {"reference": reference, "digest": digest, "app": app, "version": version}
    emit(document, lambda: click.echo(f"pushed {app} {version}: {reference}"))

"""`toolchain release export`: writes a release into one file."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import click

from toolchain.cli.options import bundle_argument, output_path
from toolchain.cli.output import emit, output_options
from toolchain.cli.release_options import file_argument
from toolchain.rollouts.carriers import export_formats


@click.command()
@bundle_argument
@output_path("FILE", "The file to write.")
@click.option(
    "--trust",
    type=file_argument,
    metavar="FILE",
    help="Check the release by this trust, and put it into the file for boards with an older one.",
)
@click.option(
    "--bundle-only",
    is_flag=True,
    help="Copy bundle and release as they are, to FILE and FILE.release, for a way of your own to the board.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(export_formats()),
    default="file",
    show_default=True,
    help="mender: that file in a Mender artifact, for its update module edge-bundle.",
)
@click.option(
    "--device-type",
    "device_types",
    multiple=True,
    metavar="TYPE",
    help="With --format mender: a device type of Mender that may install it; default: the release's classes.",
)
@output_options
def export(
    bundle: Path,
    output: Path,
    trust: Path | None,
    bundle_only: bool,
    form: str,
    device_types: tuple[str, ...],
) -> None:
    """Write a release into one file, which a board installs without a host: `edge-rt install FILE`."""
    from toolchain.events.rollouts import ReleaseStored
    from toolchain.releases.export import Delivery
    from toolchain.releases.signed_release import open_release, release_keys, verify_release
    from toolchain.releases.trust import read_trust
    from toolchain.rollouts.carrier import FilePlace
    from toolchain.rollouts.carriers import find_carrier

    carrier = find_carrier(form)
    carrier.need_reach("a file", f"--format {form}")
    options = {"bundle-only": bundle_only, "device-type": bool(device_types)}
    carrier.need_options(name for name, given in options.items() if given)
    chain = read_trust(trust) if trust else None
    release = verify_release(bundle, release_keys(chain)) if chain else open_release(bundle)
    place = FilePlace(output, bundle_only, device_types)
    events = carrier.send(Delivery(release, chain, release.release.version), place, Event())
    stored = [event for event in events if isinstance(event, ReleaseStored)]
    documents = [
        {"file": str(Path(file.place).absolute()), "bytes": file.bytes, "sha256": file.sha256}
        for file in stored
    ]

    def show() -> None:
        for file in stored:
            click.echo(f"wrote {file.place} ({file.bytes} bytes)")

    emit({"files": documents}, show)

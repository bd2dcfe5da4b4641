"""`toolchain release export`: writes a release into one file."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.options import bundle_argument, output_path
from toolchain.cli.output import emit, output_options
from toolchain.cli.release_options import file_argument


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
    type=click.Choice(["file", "mender"]),
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
    from toolchain.errors import UsageError
    from toolchain.releases.exporting import export_bundle, export_release
    from toolchain.releases.mender.artifact import export_artifact
    from toolchain.releases.signed import open_release, release_keys, verify_release
    from toolchain.releases.trust import read_trust

    if bundle_only and form != "file":
        raise UsageError("--bundle-only and --format mender exclude each other", "leave one of them out")
    if device_types and form != "mender":
        raise UsageError("--device-type belongs to --format mender", "leave it out, or add --format mender")
    chain = read_trust(trust) if trust else None
    release = verify_release(bundle, release_keys(chain)) if chain else open_release(bundle)
    if bundle_only:
        written = list(export_bundle(release, output))
    elif form == "mender":
        written = [export_artifact(release, chain, device_types, output)]
    else:
        written = [export_release(release, chain, output)]
    documents = [{"file": str(e.file.absolute()), "bytes": e.size, "sha256": e.sha256} for e in written]

    def tell() -> None:
        for each in written:
            click.echo(f"wrote {each.file} ({each.size} bytes)")

    emit({"files": documents}, tell)

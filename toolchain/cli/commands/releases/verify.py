"""`toolchain release verify`: checks a release as a board does."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.options import bundle_argument
from toolchain.cli.output import emit, output_options
from toolchain.cli.release_options import allowed_keys_option


@click.command()
@bundle_argument
@allowed_keys_option
@output_options
def verify(bundle: Path, trust: Path) -> None:
    """Check a bundle's release as a board does: signatures, expiry, every byte. Needs no network.

    Exits with 4 if a board would refuse it.
    """
    from toolchain.releases.signed_release import describe, read_release_keys, summary, verify_release

    allowed = read_release_keys(trust)
    release = verify_release(bundle, allowed)
    signers = sorted(key.fingerprint for key in release.envelope.signers(allowed.keys))

    def tell() -> None:
        for line in summary(release):
            click.echo(line)
        click.echo(f"signed by: {', '.join(signers)}\nvalid: true")

    emit({"valid": True, **describe(release), "signers": signers}, tell)

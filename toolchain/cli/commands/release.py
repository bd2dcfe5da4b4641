"""`toolchain release`: signs bundles, verifies and exports them."""

from __future__ import annotations

import click

from toolchain.cli.lazy import LazyGroup
from toolchain.cli.output import output_options

COMMANDS = {
    "keygen": "Make a key that signs releases or trusts.",
    "init": "Make the first trust: whose signatures boards accept.",
    "sign": "Sign a bundle, or add a signature to its release.",
    "verify": "Check a bundle's release as a board does.",
    "inspect": "Show a bundle's release, unchecked.",
    "export": "Write a release into one file, for a USB stick.",
    "push": "Send a release to an OCI registry.",
    "pull": "Fetch a release from an OCI registry, and check it.",
    "trust": "Show and change a trust.",
}


@click.group(cls=LazyGroup, package="toolchain.cli.commands.releases", table=COMMANDS)
@output_options
def release() -> None:
    """Sign bundles for boards in the field, and say whose signatures boards accept."""

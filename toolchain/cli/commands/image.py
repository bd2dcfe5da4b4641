"""`toolchain image`: the images whose containers steps run in."""

from __future__ import annotations

import click

from toolchain.cli.lazy import LazyGroup
from toolchain.cli.output import output_options

COMMANDS = {
    "build": "Make images that are absent or out of date.",
    "list": "List the images, and which are out of date.",
    "test": "Let images compile something and run it.",
    "shell": "Open a shell in an image.",
    "push": "Send images to a registry.",
    "pull": "Fetch images from a registry.",
    "bootstrap": "Make the Debian that images stand on.",
}


@click.group(cls=LazyGroup, package="toolchain.cli.commands.images", table=COMMANDS)
@output_options
def command() -> None:
    """Containers with the cross-compilers, that build and tune can run in."""

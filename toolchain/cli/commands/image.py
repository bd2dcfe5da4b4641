"""`toolchain image`: the images in whose containers steps run."""

from __future__ import annotations

import click

from toolchain.cli.lazy import LazyGroup
from toolchain.cli.output import output_options

COMMANDS = {
    "build": "Make images that are absent or out of date.",
    "list": "List the images, and which are out of date.",
    "test": "Test images: compile and run something in each.",
    "shell": "Open a shell in an image.",
    "push": "Push images to a registry.",
    "pull": "Pull images from a registry.",
    "bootstrap": "Make the Debian that images are based on.",
}


@click.group(cls=LazyGroup, package="toolchain.cli.commands.images", table=COMMANDS)
@output_options
def command() -> None:
    """Manage the images with cross-compilers, in which build and tune can run."""

"""`toolchain image test`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli import complete
from toolchain.cli.output import note, output_options
from toolchain.cli.terminal import bytes_for

if TYPE_CHECKING:
    from toolchain.images.catalogue import Image


@click.command("test")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete.images)
@output_options
def command(names: tuple[str, ...]) -> None:
    """Test images; default: all that exist here.

    Each compiles a program and a network for its boards and runs them; its output goes to stderr.
    """
    from toolchain.cli.commands.images.several import ResultError, named_or_here, report
    from toolchain.images.engine import connect
    from toolchain.images.listing import state_of
    from toolchain.images.making.smoke import smoke_test

    with connect() as engine:

        def act(image: Image) -> dict[str, Any]:
            state = state_of(engine, image)
            if state.id is not None and state.stale:
                note(f"warning: the image {image.name} is out of date: `toolchain image build {image.name}`")
            note(f"testing {image.name}")
            sys.stderr.flush()
            tested = smoke_test(engine, image, bytes_for(sys.stderr))
            if not tested.passed:
                raise ResultError(f"its test {tested}", tested.to_json())
            return tested.to_json()

        report(named_or_here(engine, names), act, {"RESULT": lambda row: f"passed in {row['seconds']:.0f} s"})

"""`toolchain runtime`: the C library for a user's own programs."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.options import board_name, board_option, output_path
from toolchain.cli.output import emit, note, output_options
from toolchain.cli.progress import thinned_out


@click.group()
@output_options
def command() -> None:
    """Export the C library that runs networks in your own program."""


@command.command()
@board_option("The board or board class to compile for.")
@output_path("DIR", "The folder for libedge.so, edge_rt.h and a README.")
@output_options
def export(board: str | None, output: Path) -> None:
    """Write libedge.so and edge_rt.h for a board, with a README on how to use them."""
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.runtime import arch_of, ensure_runtime
    from toolchain.runtime.export import export_runtime

    profile = find_target(board_name(board)).profile
    runtime = ensure_runtime(arch_of(profile), progress=thinned_out(note))
    written = export_runtime(runtime, profile, output)

    def tell() -> None:
        for path in written.values():
            click.echo(path)

    names = {name: str(path) for name, path in written.items()}
    emit({**names, "arch": runtime.arch, "fingerprint": runtime.fingerprint}, tell)

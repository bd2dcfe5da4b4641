"""`toolchain runtime`: the C library for a user's own programs, and a check of edge-rt itself."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.options import board_name, board_option, output_path
from toolchain.cli.output import emit, note, output_options, wants_json
from toolchain.cli.progress import thinned_out
from toolchain.errors import CheckError


@click.group()
@output_options
def runtime() -> None:
    """edge-rt: its C library for your own program, and a check of its bytes."""


@runtime.command()
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

    def print_text() -> None:
        for path in written.values():
            click.echo(path)

    names = {name: str(path) for name, path in written.items()}
    emit({**names, "arch": runtime.arch, "fingerprint": runtime.fingerprint}, print_text)


@runtime.command()
@board_option("The board or board class for which edge-rt is checked.")
@output_options
def verify(board: str | None) -> None:
    """Compile edge-rt anew from its sources, some minutes, and compare every byte with the one that is used.

    It came compiled, in a wheel whose digests the toolchain has, or was compiled here. Needs CMake and ninja:
    pip install 'edge-toolchain[compile]'.
    """
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.runtime import arch_of, ensure_runtime
    from toolchain.runtime.cache import compare_with_sources

    runtime = ensure_runtime(arch_of(find_target(board_name(board)).profile), progress=note)
    note(f"compiling edge-rt for {runtime.arch} anew")
    comparison = compare_with_sources(runtime, note)

    def print_text() -> None:
        for name, digest in comparison.anew.items():
            click.echo(f"{name}: {digest}{'' if comparison.released else ', not of a release'}")

    if wants_json() and not comparison.equal:
        emit(comparison.to_json(), print_text)
        click.get_current_context().exit(CheckError.exit_code)  # the document says what is wrong
    comparison.check()
    emit(comparison.to_json(), print_text)

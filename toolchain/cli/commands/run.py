"""`toolchain run`: runs one inference on a board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from toolchain.cli.event_log import event_log
from toolchain.cli.options import (
    board_name,
    board_option,
    bundle_argument,
    execution_options,
    named_inputs,
    output_path,
)
from toolchain.cli.output import emit, output_options, table
from toolchain.cli.places import hold_places

if TYPE_CHECKING:
    from toolchain.api.bundles import Execution


@click.command()
@bundle_argument
@board_option("The board to run on.")
@named_inputs("--input", "An input's data; one for each input.", required=True)
@output_path("OUT.npz", "The file for the outputs, by name.")
@click.option(
    "--pad",
    is_flag=True,
    help="Fill inputs up with zeros to the bundle's next shape; the bundle must be built with --pad.",
)
@execution_options
@output_options
def command(
    bundle: Path,
    board: str | None,
    inputs: tuple[str, ...],
    output: Path,
    pad: bool,
    **execution: Unpack[Execution],
) -> None:
    """Run a bundle once on a board, with your own data.

    A bundle of several shapes takes inputs in each of them.
    """
    from toolchain.api.bundles import run
    from toolchain.boards.inventory.lookup import find_board
    from toolchain.bundles.read import read_bundle
    from toolchain.measuring.arrays import read_inputs, write_outputs
    from toolchain.measuring.shapes import input_specs

    found = read_bundle(bundle)
    arrays = read_inputs(inputs, input_specs(found.manifest), shapes=not found.manifest.shapes)
    place = find_board(board_name(board))
    hold_places([place], execution["wait"])
    with event_log("run", bundle, [place.name]):
        outputs = run(found, arrays, place, pad=pad, **execution)
    write_outputs(output, outputs)
    rows = [{"name": n, "shape": list(a.shape), "dtype": a.dtype.name} for n, a in outputs.items()]

    def tell() -> None:
        table(["OUTPUT", "SHAPE", "DTYPE"], [tuple(row.values()) for row in rows])
        click.echo(f"wrote {output}")

    emit({"output": output.absolute(), "outputs": rows}, tell)

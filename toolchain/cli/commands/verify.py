"""`toolchain verify`: compares a bundle's outputs with the reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from toolchain.cli.event_log import end_as_failed, event_log
from toolchain.cli.options import (
    at_option,
    board_name,
    board_option,
    bundle_argument,
    execution_options,
)
from toolchain.cli.output import emit_shapes, hold_places, note, output_options, table, wants_json
from toolchain.errors import CheckError
from toolchain.quantities import counted

if TYPE_CHECKING:
    from toolchain.api.bundles import Execution
    from toolchain.measuring.numerics import OutputDeviation
    from toolchain.measuring.verify import VerifyResult


@click.command()
@bundle_argument
@board_option("The board to run on.")
@at_option
@execution_options
@output_options
def command(bundle: Path, board: str | None, at: tuple[str, ...], **execution: Unpack[Execution]) -> None:
    """Compare a bundle's outputs on a board with the reference.

    All shapes of the bundle are compared, unless --at picks some.

    The bundle has the reference, computed by onnxruntime. Exits with 4 if an output exceeds its tolerance.
    """
    from toolchain.api.bundles import verify
    from toolchain.boards.inventory.lookup import find_board
    from toolchain.bundles.read import read_bundle

    found, place = read_bundle(bundle), find_board(board_name(board))
    hold_places([place], execution["wait"])
    with event_log("verify", bundle, [place.name]) as log:
        results = verify(found, place, at=at, **execution)
        passed = all(result.passed for result in results)
        if not passed:
            end_as_failed(log, "an output exceeds its tolerance")
    emit_shapes(found, at, results, {"passed": passed}, show)
    if wants_json() and not passed:
        click.get_current_context().exit(CheckError.exit_code)  # the document above says what is wrong
    for result in results:
        result.check()


def _error(output: OutputDeviation) -> str:
    if output.max_rel_error is None:
        return output.problem or ""
    if output.error_steps is None:
        return f"{output.max_rel_error:.2e}"
    return f"{counted(output.error_steps, 'step', form='.3g')} of {counted(output.values_off or 0, 'value')}"


def show(result: VerifyResult) -> None:
    """Print the comparison as text."""
    table(
        ["OUTPUT", "SHAPE", "ERROR", "TOLERANCE", "WORST AT", "PASSED"],
        [
            (
                o.name,
                o.shape,
                _error(o),
                f"{o.tolerance:g}"
                if o.steps is None
                else f"{counted(o.steps, 'step', form='g')} of {counted(o.values or 0, 'value')}",
                o.worst_index,
                "yes" if o.passed else "no",
            )
            for o in result.comparison.outputs
        ],
    )
    for warning in result.warnings:
        note(f"warning: {warning}")
    click.echo(f"machine: {result.place['machine']}\npassed: {str(result.passed).lower()}")

"""`toolchain verify`: compares a bundle's outputs with the reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from toolchain.cli.options import Execution, board_name, board_option, bundle_argument, execution_options
from toolchain.cli.output import emit, note, output_options, table, wants_json
from toolchain.errors import CheckError

if TYPE_CHECKING:
    from toolchain.measuring.numerics import OutputDeviation
    from toolchain.measuring.verify import VerifyResult


@click.command()
@bundle_argument
@board_option("The board to run on.")
@execution_options
@output_options
def command(bundle: Path, board: str | None, **execution: Unpack[Execution]) -> None:
    """Compare a bundle's outputs on a board with the reference.

    The bundle has the reference, computed by onnxruntime. Exits with 4 if an output exceeds its tolerance.
    """
    from toolchain.boards.inventory.lookup import find_board
    from toolchain.bundles.read import read_bundle
    from toolchain.measuring.verifications import remember_result
    from toolchain.measuring.verify import verify_bundle

    found, place = read_bundle(bundle), find_board(board_name(board))
    result = remember_result(found, place, verify_bundle(found, place, **execution))
    emit(result.to_json(), lambda: show(result))
    if wants_json() and not result.passed:
        click.get_current_context().exit(CheckError.exit_code)  # the document above says what is wrong
    result.check()


def _error(output: OutputDeviation) -> str:
    if output.max_rel_error is None:
        return output.problem or ""
    if output.error_steps is None:
        return f"{output.max_rel_error:.2e}"
    return f"{output.error_steps:.3g} steps of {output.values_off} values"


def show(result: VerifyResult) -> None:
    """Print the comparison as text."""
    table(
        ["OUTPUT", "SHAPE", "ERROR", "TOLERANCE", "WORST AT", "PASSED"],
        [
            (
                o.name,
                o.shape,
                _error(o),
                f"{o.tolerance:g}" if o.steps is None else f"{o.steps:g} steps of {o.values} values",
                o.worst_index,
                "yes" if o.passed else "no",
            )
            for o in result.comparison.outputs
        ],
    )
    for warning in result.warnings:
        note(f"warning: {warning}")
    click.echo(f"machine: {result.place['machine']}\npassed: {str(result.passed).lower()}")

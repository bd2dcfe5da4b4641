"""`toolchain run`: runs one inference on a board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Unpack

import click

from toolchain.cli.event_log import event_log
from toolchain.cli.options import (
    board_name,
    board_option,
    bundle_argument,
    execution_options,
    named_inputs,
)
from toolchain.cli.output import emit, hold_places, note, output_options, table
from toolchain.errors import UsageError
from toolchain.foreign import printable

if TYPE_CHECKING:
    import numpy as np

    from toolchain.api.bundles import Execution
    from toolchain.models.spec import TensorSpec

_TOP = 5  # values of a vector that are printed
_FEW = 12  # values of another array that are printed in full


@click.command()
@bundle_argument
@board_option("The board to run on.")
@named_inputs("--input", "An input's data; one for each input.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT.npz",
    help="The file for the outputs, by name; default: their values are printed.",
)
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
    output: Path | None,
    pad: bool,
    **execution: Unpack[Execution],
) -> None:
    """Run a bundle once on a board, with your own data.

    A bundle of several shapes takes inputs in each of them. Without --input it says which inputs there are.
    """
    from toolchain.api.bundles import run
    from toolchain.boards.inventory.lookup import find_board
    from toolchain.bundles.read import read_bundle
    from toolchain.files.atomic import check_writable
    from toolchain.measuring.arrays import read_inputs, write_outputs
    from toolchain.measuring.shapes import input_specs

    found = read_bundle(bundle)
    specs = input_specs(found.manifest)
    _check_given(bundle, board, inputs, specs)
    arrays = read_inputs(inputs, specs, shapes=not found.manifest.shapes)
    if output is not None:
        check_writable(output)
    place = find_board(board_name(board))
    hold_places([place], execution["wait"])
    with event_log("run", bundle, [place.name]):
        outputs = run(found, arrays, place, pad=pad, **execution)
    rows = [{"name": n, "shape": list(a.shape), "dtype": a.dtype.name} for n, a in outputs.items()]

    if output is not None:
        if output.exists():
            note(f"{output} was there, and is replaced")
        write_outputs(output, outputs)

    def tell() -> None:
        table(["OUTPUT", "SHAPE", "DTYPE"], [tuple(row.values()) for row in rows])
        if output is None:
            show_values(outputs)
        else:
            click.echo(f"wrote {output}")

    if output is None:
        document = [{**row, "values": a.tolist()} for row, a in zip(rows, outputs.values(), strict=True)]
        emit({"output": None, "outputs": document}, tell)
    else:
        emit({"output": output.absolute(), "outputs": rows}, tell)


def _check_given(bundle: Path, board: str | None, inputs: Sequence[str], specs: Sequence[TensorSpec]) -> None:
    """Refuse a command without all inputs, and name them all at once.

    Raises
    ------
    UsageError
        An input is missing; the hint is the whole line to type.
    """
    from toolchain.models.options import split_named

    names = [spec.name for spec in specs]
    given = {(split_named(text, names) or text.partition("="))[0] for text in inputs}
    missing = [spec for spec in specs if spec.name not in given]
    if not missing or given - set(names):  # of a wrong name, `read_inputs` tells more
        return
    where = f" --board {quote(board)}" if board else ""
    typed = [*inputs, *(f"{spec.name}=FILE.npy" for spec in missing)]
    line = " ".join(f"--input {quote(text)}" for text in typed)
    listed = "; ".join(map(str, missing))
    raise UsageError(
        f"{bundle}: without --input for {listed}",
        f"toolchain run {quote(str(bundle))}{where} {line}",
    )


def show_values(outputs: Mapping[str, np.ndarray]) -> None:
    """Print the largest values of each vector with their indices; of other arrays all, or the outer ones."""
    import numpy as np

    for name, array in outputs.items():
        flat = array.reshape(-1)
        if max(array.shape, default=1) == flat.size > _TOP and array.dtype != np.bool_:
            order = np.argsort(-flat.astype(np.float64), kind="stable")[:_TOP]
            said = ", ".join(f"[{place}] {flat[place]:.6g}" for place in order)
            click.echo(printable(f"{name}: the largest of {flat.size}: {said}"))
        elif flat.size <= _FEW:
            click.echo(printable(f"{name}: {np.array2string(array, separator=', ', max_line_width=10**6)}"))
        else:
            said = np.array2string(array, threshold=_FEW, edgeitems=2, separator=", ")
            click.echo(f"{printable(name)}:\n{said}")

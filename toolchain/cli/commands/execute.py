"""`toolchain run`, `verify` and `bench`: commands that execute a bundle on a board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.options import (
    NamedBoard,
    Seconds,
    at_option,
    board_option,
    bundle_argument,
    execution_options,
    gathered,
    named_inputs,
)
from toolchain.cli.output import emit, emit_shapes, note, output_options, table, wants_json
from toolchain.cli.progress import end_as_failed, event_log
from toolchain.errors import CheckError, UsageError
from toolchain.foreign import printable
from toolchain.measuring.execution import Sampling
from toolchain.quantities import counted, shown_gflops, shown_ms

if TYPE_CHECKING:
    import numpy as np

    from toolchain.measuring.bench import BenchResult
    from toolchain.measuring.execution import Execution
    from toolchain.measuring.numerics import OutputDeviation
    from toolchain.measuring.verify import VerifyResult
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
def run(
    bundle: Path,
    board: NamedBoard,
    inputs: tuple[str, ...],
    output: Path | None,
    pad: bool,
    execution: Execution,
) -> None:
    """Run a bundle once on a board, with your own data.

    A bundle of several shapes takes inputs in each of them. Without --input it says which inputs there are.
    """
    from toolchain.bundles.read import read_bundle
    from toolchain.files.atomic import check_writable
    from toolchain.measuring.arrays import read_inputs, write_outputs
    from toolchain.measuring.run import run_bundle
    from toolchain.measuring.shapes import input_specs

    opened = read_bundle(bundle)
    specs = input_specs(opened.manifest)
    _check_given(bundle, board.name, inputs, specs)
    arrays = read_inputs(inputs, specs, shapes=not opened.manifest.shapes)
    if output is not None:
        check_writable(output)
    on_board = board.hold()
    with event_log("run", bundle, [on_board.board.name]):
        outputs = run_bundle(opened, on_board, arrays, execution, pad=pad)
    rows = [{"name": n, "shape": list(a.shape), "dtype": a.dtype.name} for n, a in outputs.items()]

    if output is not None:
        if output.exists():
            note(f"{output} was there, and is replaced")
        write_outputs(output, outputs)

    def print_text() -> None:
        table(["OUTPUT", "SHAPE", "DTYPE"], [tuple(row.values()) for row in rows])
        if output is None:
            show_values(outputs)
        else:
            click.echo(f"wrote {output}")

    if output is None:
        document = [{**row, "values": a.tolist()} for row, a in zip(rows, outputs.values(), strict=True)]
        emit({"output": None, "outputs": document}, print_text)
    else:
        emit({"output": output.absolute(), "outputs": rows}, print_text)


def _check_given(bundle: Path, board: str | None, inputs: Sequence[str], specs: Sequence[TensorSpec]) -> None:
    """Refuse a command that lacks inputs; the error names all that are missing.

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
    """Print the largest values of each vector with their indices, and the outer values of other arrays."""
    import numpy as np

    for name, array in outputs.items():
        flat = array.reshape(-1)
        if max(array.shape, default=1) == flat.size > _TOP and array.dtype != np.bool_:
            order = np.argsort(-flat.astype(np.float64), kind="stable")[:_TOP]
            text = ", ".join(f"[{place}] {flat[place]:.6g}" for place in order)
            click.echo(printable(f"{name}: the largest of {flat.size}: {text}"))
        elif flat.size <= _FEW:
            click.echo(printable(f"{name}: {np.array2string(array, separator=', ', max_line_width=10**6)}"))
        else:
            text = np.array2string(array, threshold=_FEW, edgeitems=2, separator=", ")
            click.echo(f"{printable(name)}:\n{text}")


@click.command()
@bundle_argument
@board_option("The board to run on.")
@at_option
@execution_options
@output_options
def verify(bundle: Path, board: NamedBoard, at: tuple[str, ...], execution: Execution) -> None:
    """Compare a bundle's outputs on a board with the reference.

    All shapes of the bundle are compared, unless --at picks some.

    The bundle has the reference, computed by onnxruntime. Exits with 4 if an output exceeds its tolerance.
    """
    from toolchain.api.bundles import verify_shapes
    from toolchain.bundles.read import read_bundle

    opened, on_board = read_bundle(bundle), board.hold()
    with event_log("verify", bundle, [on_board.board.name]) as log:
        results = verify_shapes(opened, at, on_board, execution)
        passed = all(result.passed for result in results)
        if not passed:
            end_as_failed(log, "an output exceeds its tolerance")
    emit_shapes(opened, at, results, {"passed": passed}, show_comparison)
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


def show_comparison(result: VerifyResult) -> None:
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


@click.command()
@bundle_argument
@board_option("The board to measure on.")
@click.option(
    "--number", type=click.IntRange(min=1), default=1, show_default=True, help="Inferences per sample."
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of samples; default: as --time allows, up to 10000.",
)
@click.option(
    "--min-repeat-ms",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Minimum length of a sample in ms; inferences are added until it is reached.",
)
@click.option(
    "--time",
    "time_s",
    type=Seconds(),
    metavar="S",
    help="Seconds to spend, warm-up included; default 10, unlimited with --repeat.",
)
@click.option("--profile", is_flag=True, help="Also time each operator.")
@at_option
@execution_options
@output_options
@gathered("sampling", Sampling)
def bench(
    bundle: Path, board: NamedBoard, at: tuple[str, ...], sampling: Sampling, execution: Execution
) -> None:
    """Measure a bundle's latency on a board.

    All shapes of the bundle are measured, unless --at picks some; --time is for each.
    """
    from toolchain.api.bundles import bench_shapes
    from toolchain.bundles.read import read_bundle

    opened, on_board = read_bundle(bundle), board.hold()
    with event_log("bench", bundle, [on_board.board.name]):
        results = bench_shapes(opened, at, on_board, sampling, execution)
    emit_shapes(opened, at, results, {}, show_latency)


def show_latency(result: BenchResult) -> None:
    """Print the statistics as text."""
    times = {
        "mean": result.mean_ms,
        "std": result.std_ms,
        "p50": result.p50_ms,
        "p95": result.p95_ms,
        "p99": result.p99_ms,
        "min": result.min_ms,
    }
    table([name.upper() for name in times], [[shown_ms(ms) for ms in times.values()]])
    place = f"{counted(result.threads, 'thread')} on {result.cluster}"
    click.echo(f"{counted(result.runs, 'run')}, {place}, peak memory {result.peak_rss_mib:.1f} MiB")
    if result.copies_ms:
        to, back = result.copies_ms["to_device"], result.copies_ms["from_device"]
        kind = result.device.partition(":")[0]  # warnings name the device
        click.echo(f"time on {kind}, without copies: inputs {shown_ms(to)}, outputs {shown_ms(back)}")
    if result.graph:
        click.echo("the driver began the kernels as one graph; --graph off: one by one")
    if result.modelled:
        model = result.modelled
        click.echo(
            f"cycle model {model['version']}: {shown_ms(model['ms'])} on the accelerator, "
            f"{model['cycles']} cycles at {model['mhz']} MHz; a modelled time, not measured on a board"
        )
    if result.governor or result.temperature_c:
        click.echo(f"governor {result.governor or '-'}, {result.temperature_c or '-'} °C")
    if result.operators:
        table(
            ["OPERATOR", "CALLS", "TIME", "SPEED", "PEAK"], [_row(operator) for operator in result.operators]
        )
        if result.peaks:
            peaks = ", ".join(_peak(name, gops) for name, gops in result.peaks.items())
            click.echo(f"peak: {peaks}, measured; winograd needs fewer operations")
    for warning in result.warnings:
        note(f"warning: {warning}")


def _peak(products: str, gops: float) -> str:
    return f"{gops:.0f} GFLOP/s in float32" if products == "float32" else f"{gops:.0f} GOP/s by {products}"


def _row(operator: dict[str, Any]) -> tuple[object, ...]:
    gflops, share = operator["gflops"], operator["share"]
    return (
        operator["name"],
        operator["calls"],
        shown_ms(operator["ms"]),
        shown_gflops(gflops),
        "-" if share is None else f"{share:.0%}",
    )

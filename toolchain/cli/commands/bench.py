"""`toolchain bench`: measures the latency of an inference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from toolchain.cli.event_log import event_log
from toolchain.cli.options import (
    Seconds,
    at_option,
    board_name,
    board_option,
    bundle_argument,
    execution_options,
)
from toolchain.cli.output import emit_shapes, hold_places, note, output_options, table
from toolchain.quantities import counted, shown_gflops, shown_ms

if TYPE_CHECKING:
    from toolchain.api.bundles import Execution
    from toolchain.measuring.bench import BenchResult


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
def command(
    bundle: Path,
    board: str | None,
    at: tuple[str, ...],
    number: int,
    repeat: int | None,
    min_repeat_ms: int,
    time_s: float | None,
    profile: bool,
    **execution: Unpack[Execution],
) -> None:
    """Measure a bundle's latency on a board.

    All shapes of the bundle are measured, unless --at picks some; --time is for each.
    """
    from toolchain.api.bundles import bench
    from toolchain.boards.inventory.lookup import find_board
    from toolchain.bundles.read import read_bundle

    found, place = read_bundle(bundle), find_board(board_name(board))
    hold_places([place], execution["wait"])
    with event_log("bench", bundle, [place.name]):
        results = bench(
            found,
            place,
            at=at,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms,
            time_s=time_s,
            profile=profile,
            **execution,
        )
    emit_shapes(found, at, results, {}, show)


def show(result: BenchResult) -> None:
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
        said = result.modelled
        click.echo(
            f"cycle model {said['version']}: {shown_ms(said['ms'])} on the accelerator, "
            f"{said['cycles']} cycles at {said['mhz']} MHz; a modelled time, not measured on a board"
        )
    if result.governor or result.temperature_c:
        click.echo(f"governor {result.governor or '-'}, {result.temperature_c or '-'} °C")
    if result.operators:
        table(["OPERATOR", "CALLS", "TIME", "SPEED", "PEAK"], [_row(each) for each in result.operators])
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

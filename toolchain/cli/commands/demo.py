"""`toolchain demo`: tunes, builds, verifies and times one network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolchain.cli import complete
from toolchain.cli.model_options import model_options
from toolchain.cli.options import gathered, named_inputs, trial_timeout_option
from toolchain.cli.output import emit, hold_places, note, output_options, show_quantised
from toolchain.cli.progress import event_log, step_logger
from toolchain.cli.tuning.progress import tuning_progress
from toolchain.quantities import counted, shown_ms

if TYPE_CHECKING:
    from toolchain.demo import DemoRequest, DemoResult
    from toolchain.models.options import ModelOptions
    from toolchain.tasks.options import CodeOptions


def _request(
    model: str,
    inputs: tuple[str, ...],
    board: str | None,
    trials: int | None,
    timeout_s: float | None,
    output: Path,
    options: ModelOptions,
    code: CodeOptions,
) -> DemoRequest:
    from toolchain.demo import DemoRequest

    return DemoRequest(model, options, code, inputs, board, output, trials, timeout_s)


@click.command()
@click.argument("model", default="zoo:mobilenet", shell_complete=complete.models)
@named_inputs("--input", "Data to verify and time, one for each input; default: seeded random data.")
@click.option(
    "--board",
    metavar="B",
    shell_complete=complete.boards,
    help="Default: an emulated rk3399, or local if that is not possible.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    help="Number of candidates to measure. [default: 32 of four tasks; on an emulated board 4 of one]",
)
@trial_timeout_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo"),
    show_default=True,
    metavar="DIR",
    help="The folder for library, bundle and report.",
)
@model_options
@output_options
@gathered("request", _request)
def demo(request: DemoRequest) -> None:
    """Tune, build, upload, verify and time one network, and write a report.

    A short run: a few trials of the heaviest tasks. `toolchain tune` does the rest.
    """
    from toolchain.demo import run_demo

    if request.board:
        from toolchain.boards.inventory.lookup import find_board

        hold_places([find_board(request.board)])
    boards = [request.board] if request.board else []
    with event_log("demo", request.model, boards) as log, tuning_progress(log) as listener:
        result = run_demo(request, step_logger(log, note), listener)
    emit(result.to_json(), lambda: show(result))


def show(result: DemoResult) -> None:
    """Print the summary."""
    timed = result.timed
    tasks = result.to_json()["tasks"]
    tuned = result.tuned.to_json()
    worst = result.verified.comparison.worst
    lines = {
        "model": result.model.source,
        "board": f"{result.board.name}{' (emulated)' if result.board.emulated else ''}",
        "transport": result.board.transport.kind,
        "machine": timed.machine,
        "tuning": (
            f"{counted(result.tuned.trials, 'trial')}, {tuned['failed']} failed, {tuned['seconds']} s; "
            f"{tuned['verdict']}"
        ),
        "tasks": f"{tasks['total']} total, {tasks['tuned']} with a record, {tasks['improved']} improved",
        "library": f"{_shown(result.built.library)} ({result.built.target.cpu})",
        "bundle": _shown(result.built.bundle),
        "passed": str(result.verified.passed).lower(),
        "error": f"{worst.max_rel_error:.2e} of output {worst.name!r}, tolerance {worst.tolerance:g}",
        "latency": (
            f"mean {shown_ms(timed.mean_ms)}, p50 {shown_ms(timed.p50_ms)}, p95 {shown_ms(timed.p95_ms)}, "
            f"min {shown_ms(timed.min_ms)}; {counted(timed.runs, 'run')}, {counted(timed.threads, 'thread')}"
        ),
        "memory": f"{timed.peak_rss_mib:.1f} MiB at most",
        "report": _shown(result.report),
    }
    if result.built.quantised:
        show_quantised(result.built.quantised)
    for warning in timed.warnings:
        note(f"warning: {warning}")
    for name, value in lines.items():
        click.echo(f"{name}: {value}")


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)

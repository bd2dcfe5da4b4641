"""`toolchain board probe` and `board accept`: measure a board, and check what its class promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli import complete
from toolchain.cli.output import emit, hold_places, note, output_options, table, wants_json
from toolchain.cli.progress import end_as_failed, event_log, step_logger
from toolchain.cli.rollouts.choose import Duration
from toolchain.cli.tuning.progress import tuning_progress

if TYPE_CHECKING:
    from toolchain.acceptance.run import Accepted
    from toolchain.architectures.rates import BoardRates


@click.command()
@click.argument("board", shell_complete=complete.boards)
@output_options
def probe(board: str) -> None:
    """Measure how fast a board's cores multiply, and read from caches and memory: 3 s.

    The figures are kept: for a board over SSH in toolchain.toml, for this host in the cache. `board show`
    prints them, builds for the board choose code by them (--rates), and `bench --profile` compares with them.
    """
    from toolchain.api.rates import measure_and_keep
    from toolchain.boards.inventory.lookup import find_board

    target = find_board(board)
    hold_places([target])
    rates = measure_and_keep(target, note)
    emit({"board": target.name, **rates.model_dump(mode="json")}, lambda: show_rates(rates))


def show_rates(rates: BoardRates) -> None:
    """Print measured rates as a table: a row for each cluster's one core, and for all of its cores."""
    from toolchain.architectures.rates import float_products

    floats = float_products()
    table(
        ["CORE", "THREADS", "GFLOP/S", "INT8 GOP/S", "L1 GB/S", "L2 GB/S", "L3 GB/S", "MEMORY GB/S"],
        [
            (
                cluster.core,
                speeds.threads,
                _speeds({name: gops for name, gops in speeds.gops.items() if name in floats}),
                _speeds({name: gops for name, gops in speeds.gops.items() if name not in floats}),
                *(f"{speeds.gb_s[level]:g}" if level in speeds.gb_s else "-" for level in LEVELS),
            )
            for cluster in rates.clusters
            for speeds in (cluster.one, cluster.all)
        ],
    )
    click.echo(f"measured {rates.measured} by edge-rt {rates.edge_rt}")


LEVELS = ("l1", "l2", "l3", "memory")


def _speeds(gops: dict[str, float]) -> str:
    return " ".join(f"{name}={speed:g}" for name, speed in gops.items()) or "-"


@click.command()
@click.argument("board", shell_complete=complete.boards)
@click.option(
    "--time",
    "time_s",
    type=Duration(),
    default="30m",
    show_default=True,
    metavar="T",
    help="Steps begin as long as time is left; the facts and the first network of each device always do.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("acceptance"),
    show_default=True,
    metavar="DIR",
    help="The folder for the page and the JSON document.",
)
@click.option("--fresh", is_flag=True, help="Repeat the steps that passed in an earlier call, too.")
@click.option(
    "--skip",
    "skips",
    multiple=True,
    metavar="STEP,…",
    help="Steps to leave out, or beginnings of their names: tune, verify:opencl. --dry-run lists them.",
)
@click.option("--dry-run", is_flag=True, help="Print the steps; ask no board.")
@output_options
def accept(
    board: str, time_s: float, output: Path, fresh: bool, skips: tuple[str, ...], dry_run: bool
) -> None:
    """Check on a board everything that its class promises, and write what was found.

    Facts, edge-rt, rates of its cores, the zoo's networks on each device against onnxruntime, latencies with
    noise and throttling, a small tuning run, predicted beside measured times. Interrupted, the same command
    goes on. The board is left as it was; the page and the JSON document have no names, addresses or paths.
    """
    from toolchain.acceptance.run import AcceptOptions, planned
    from toolchain.acceptance.run import accept as accept_board
    from toolchain.boards.inventory.lookup import find_board

    target = find_board(board)
    words = tuple(word for text in skips for word in text.split(",") if word)
    options = AcceptOptions(time_s, words, fresh)
    if dry_run:
        steps = [
            {"name": s.name, "summary": s.summary, "begins": fate} for s, fate in planned(target, options)
        ]
        rows = [tuple(step.values()) for step in steps]
        emit({"board": target.name, "steps": steps}, lambda: table(["STEP", "", "BEGINS"], rows))
        return
    hold_places([target])
    with event_log("accept", target.name, [target.name]) as log, tuning_progress(log) as listener:
        done = accept_board(target, output, options, step_logger(log, note), listener)
        problem = done.problem(target.name)
        if problem is not None:
            end_as_failed(log, problem.message)
    emit(_document(target.name, done), lambda: show(done))
    if problem is not None and wants_json():
        click.get_current_context().exit(problem.exit_code)  # the document above says what is wrong
    if problem is not None:
        raise problem


def _document(board: str, done: Accepted) -> dict[str, Any]:
    """Return the published document together with the board's name and the paths, which are not published."""
    private = {
        "board": board,
        "passed": done.document.passed,
        "page": str(done.html),
        "document": str(done.json),
    }
    return {**private, **done.document.model_dump(mode="json")}


def show(done: Accepted) -> None:
    """Print the results as text."""
    document = done.document
    emulated = "emulated" if document.emulated else ""
    table(
        ["STEP", "RESULT", "SECONDS", "WHY"],
        [(step.name, step.result, f"{step.seconds:.1f}", step.reason) for step in document.steps],
    )
    click.echo(f"class: {' '.join((document.board_class, emulated)).strip()}")
    counted = (f"{document.count(result)} {result}" for result in ("passed", "failed", "missed", "skipped"))
    click.echo(f"steps: {', '.join(counted)}")
    click.echo(f"page: {done.html}\ndocument: {done.json}")

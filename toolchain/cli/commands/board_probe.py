"""`toolchain board probe`: measures how fast a board's cores are, and keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolchain.architectures.rates import FLOATS
from toolchain.cli import complete
from toolchain.cli.output import emit, note, output_options, table

if TYPE_CHECKING:
    from toolchain.architectures.rates import BoardRates
    from toolchain.boards.board import Board


@click.command()
@click.argument("board", shell_complete=complete.boards)
@output_options
def probe(board: str) -> None:
    """Measure how fast a board's cores multiply, and read from caches and memory: 3 s.

    The figures are kept: for a board over SSH in toolchain.toml, for this host in the cache. `board show`
    prints them, builds for the board choose code by them (--rates), and `bench --profile` compares with them.
    """
    from toolchain.boards.inventory.lookup import find_board

    found = find_board(board)
    rates = measure_and_keep(found)
    emit({"board": found.name, **rates.model_dump(mode="json")}, lambda: show_rates(rates))


def measure_and_keep(board: Board) -> BoardRates:
    """Measure a board's rates and keep them; say where, and warn if other programs ran meanwhile."""
    from toolchain.boards.inventory.rates import keep_rates
    from toolchain.measuring.rates import BUSY_SHARE, measure_rates

    note(f"measuring the cores of {board.name}: 3 s")
    rates = measure_rates(board, note)
    file = keep_rates(board, rates)
    note(f"{file} has them")
    if rates.cpu_share < BUSY_SHARE:
        note(
            f"warning: other programs ran on {board.name}, and it measured with {rates.cpu_share:.0%} of its "
            f"CPUs; when it is idle: toolchain board probe {board.name}"
        )
    return rates


def measure_if_unknown(board: Board) -> None:
    """Measure and keep a real board's rates if there are none; a failure does not stop the command."""
    from toolchain.boards.inventory.rates import kept_rates
    from toolchain.errors import ToolchainError

    if board.emulated or kept_rates(board.name) is not None:
        return
    try:
        measure_and_keep(board)
    except ToolchainError as error:
        note(
            f"warning: its cores were not measured: {error.message}; "
            f"to try again: toolchain board probe {board.name}"
        )


def show_rates(rates: BoardRates) -> None:
    """Print measured rates as a table: a row for each cluster's one core, and for all of its cores."""
    table(
        ["CORE", "THREADS", "GFLOP/S", "INT8 GOP/S", "L1 GB/S", "L2 GB/S", "L3 GB/S", "MEMORY GB/S"],
        [
            (
                cluster.core,
                each.threads,
                _speeds({name: gops for name, gops in each.gops.items() if name in FLOATS}),
                _speeds({name: gops for name, gops in each.gops.items() if name not in FLOATS}),
                *(f"{each.gb_s[level]:g}" if level in each.gb_s else "-" for level in LEVELS),
            )
            for cluster in rates.clusters
            for each in (cluster.one, cluster.all)
        ],
    )
    click.echo(f"measured {rates.measured} by edge-rt {rates.edge_rt}")


LEVELS = ("l1", "l2", "l3", "memory")


def _speeds(gops: dict[str, float]) -> str:
    return " ".join(f"{name}={speed:g}" for name, speed in gops.items()) or "-"

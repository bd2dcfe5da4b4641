"""`toolchain board probe`: measures how fast a board's cores are, and keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolchain.cli import complete
from toolchain.cli.output import emit, hold_places, note, output_options, table

if TYPE_CHECKING:
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

    found = find_board(board)
    hold_places([found])
    rates = measure_and_keep(found, note)
    emit({"board": found.name, **rates.model_dump(mode="json")}, lambda: show_rates(rates))


def show_rates(rates: BoardRates) -> None:
    """Print measured rates as a table: a row for each cluster's one core, and for all of its cores."""
    from toolchain.architectures.rates import float_products

    floats = float_products()
    table(
        ["CORE", "THREADS", "GFLOP/S", "INT8 GOP/S", "L1 GB/S", "L2 GB/S", "L3 GB/S", "MEMORY GB/S"],
        [
            (
                cluster.core,
                each.threads,
                _speeds({name: gops for name, gops in each.gops.items() if name in floats}),
                _speeds({name: gops for name, gops in each.gops.items() if name not in floats}),
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

"""`toolchain fleet`: shows what the boards of a fleet run."""

from __future__ import annotations

import click

from toolchain.cli.output import emit, output_options, table
from toolchain.cli.rollouts.choose import chosen_boards, fleet_options

_DIGITS = 12  # of a digest, in a table


@click.group()
def fleet() -> None:
    """Show what the boards of a fleet run."""


@fleet.command()
@fleet_options
@output_options
def status(board_names: tuple[str, ...], group: str | None, at_once: int) -> None:
    """Show the releases on boards; by default on all boards.

    Exits with 1 if a board cannot be reached or asked.
    """
    from toolchain.rollouts.carriers import fleet_status

    rows = fleet_status(chosen_boards(board_names, group, or_all=True), at_once)
    emit(
        {"boards": [row.to_json() for row in rows]},
        lambda: table(
            ["BOARD", "STATE", "APP", "VERSION", "DIGEST", "PREVIOUS", "SINCE", "TRUST", "ERROR"],
            [
                (
                    row.name,
                    row.state,
                    row.app,
                    row.version,
                    (row.digest or "")[:_DIGITS],
                    (row.previous or "")[:_DIGITS],
                    row.since,
                    row.trust,
                    row.error,
                )
                for row in rows
            ],
        ),
    )
    if any(row.state in ("offline", "failed") for row in rows):
        click.get_current_context().exit(1)

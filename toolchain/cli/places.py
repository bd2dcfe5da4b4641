"""Holds the labgrid places of boards until a command ends, however it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from toolchain.cli.output import note

if TYPE_CHECKING:
    from toolchain.boards.board import Board


def hold_places(boards: Sequence[Board], wait_s: float | None = None) -> None:
    """Acquire the places of those boards that have one; they are released when the command ends.

    Errors are those of `held_places`.

    Parameters
    ----------
    wait_s
        Seconds to wait for a place that somebody else holds, beside those of its entry.
    """
    if any(board.place for board in boards):
        from toolchain.boards.labgrid.places import held_places

        click.get_current_context().with_resource(held_places(boards, wait_s, note))

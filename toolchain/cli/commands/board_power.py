"""`toolchain board power`: switches a board by the user's own commands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

import click

from toolchain.cli import complete
from toolchain.cli.options import Seconds
from toolchain.cli.output import emit, hold_places, note, output_options

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.configuration.power import PowerAction


@click.command()
@click.argument("action", type=click.Choice(["on", "off", "cycle"]))
@click.argument("board", shell_complete=complete.switched_boards)
@click.option(
    "--wait",
    "wait_s",
    type=Seconds(),
    metavar="S",
    help="After on and cycle: seconds to wait until the board answers; default: `boot_s` of its entry.",
)
@click.option("--no-wait", is_flag=True, help="After on and cycle: return at once.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(),
    metavar="S",
    help="Seconds for each command; default: `timeout_s` of its entry.",
)
@click.option(
    "--force", is_flag=True, help="Also while somebody measures on the board, or installs a release."
)
@output_options
def power(
    action: str, board: str, wait_s: float | None, no_wait: bool, timeout_s: float | None, force: bool
) -> None:
    """Switch a board on or off, or off and on again, by its power commands in toolchain.toml.

    Without a command for `cycle`, it is switched off and, after a pause, on. It is not switched off while
    somebody measures there or installs a release, unless --force is given.
    """
    from toolchain.boards.inventory.lookup import find_board
    from toolchain.boards.power.cycles import boot_if_there, wait_until_answers
    from toolchain.boards.power.switch import power_of, switch

    found = _exactly(find_board(board), board)
    commands = power_of(found)
    hold_places([found])
    wanted = cast("PowerAction", action)
    if action != "on" and not force:
        _check_free(found)
    waits = not no_wait and action != "off"
    before = boot_if_there(found) if waits and action == "cycle" else ""
    found.transport.close()
    begun = time.monotonic()
    note(f"switching {found.name}: {action}")
    switch(found, wanted, timeout_s)
    switched_s = time.monotonic() - begun
    answered = wait_until_answers(found, wait_s or commands.boot_s, before=before) if waits else None
    document = {
        "board": found.name,
        "action": action,
        "seconds": round(switched_s, 3),
        "answered_s": round(answered.seconds, 3) if answered else None,
        "restarted": answered.restarted if answered else None,
    }

    def tell() -> None:
        said = f"{found.name}: {action} took {switched_s:.1f} s"
        click.echo(said + (f"; it answers after {answered.seconds:.1f} s" if answered else ""))

    emit(document, tell)
    if answered and answered.restarted is False:
        note(
            f"warning: {found.name} has not been restarted since: "
            "look whether its power commands switch the right outlet"
        )


def _exactly(board: Board, name: str) -> Board:
    """Return the board if that is its name, not that of its class or group: one is switched, no other."""
    from toolchain.errors import UsageError

    if board.name != name:
        raise UsageError(
            f"{name} is no board but a class or a group", f"name one board, such as {board.name}"
        )
    return board


def _check_free(board: Board) -> None:
    from toolchain.boards.inventory.register import names_of_machine
    from toolchain.errors import ToolchainError
    from toolchain.rollouts.fleet import holders_of

    if holders := holders_of(board, names_of_machine(board.name)):
        raise ToolchainError(
            f"board {board.name} is not switched, somebody is at work there: {'; '.join(holders)}",
            "wait for it to end; or --force",
        )

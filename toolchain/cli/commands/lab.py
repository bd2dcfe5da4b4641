"""`toolchain lab`: the tracker, and the servers on boards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolchain.cli import complete
from toolchain.cli.output import emit, note, output_options, table
from toolchain.cli.progress import thinned_out

if TYPE_CHECKING:
    from toolchain.rpc.lab import LabStatus


@click.group()
@output_options
def lab() -> None:
    """Start, show and stop the tracker and the servers on boards.

    `toolchain tune` starts its own lab if none runs; use these commands to keep one running.
    """


@lab.command()
@click.argument("names", metavar="[BOARD]…", nargs=-1, shell_complete=complete.boards)
@click.option(
    "--board",
    "more",
    metavar="B",
    multiple=True,
    shell_complete=complete.boards,
    help="Same as an argument: a board, a class or a group; default: every board.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="P",
    help="The tracker's port on loopback; default: a free one.",
)
@output_options
def start(names: tuple[str, ...], more: tuple[str, ...], port: int) -> None:
    """Start the lab, or add boards to the one that runs.

    A board that cannot be reached is `away`; `lab status` shows the reason. It joins the lab when it comes
    back.
    """
    from toolchain.boards.inventory.lookup import find_boards, list_boards
    from toolchain.rpc import lab

    named = {board.name: board for name in (*names, *more) for board in find_boards(name)}
    boards = list(named.values()) or list_boards()
    if any(board.place for board in boards):
        from toolchain.boards.labgrid.client import check_held

        check_held(boards)
    note(f"starting servers on {', '.join(board.name for board in boards)}")
    status = lab.start(boards, port, progress=thinned_out(note))
    emit(status.to_json(), lambda: _show(status))


@lab.command()
@output_options
def status() -> None:
    """Show the tracker and the servers of each key."""
    from toolchain.rpc import lab

    running = lab.status()
    nothing: dict[str, object] = {
        "tracker": None,
        "keys": {},
        "boards": [],
        "states": {},
        "leases": [],
        "waiting": [],
        "pid": None,
    }
    document = running.to_json() if running else nothing
    emit(document, lambda: _show(running))


@lab.command()
@output_options
def stop() -> None:
    """Stop the lab and all that runs in it."""
    from toolchain.rpc import lab

    stopped = lab.stop()
    emit({"stopped": stopped}, lambda: click.echo("stopped" if stopped else "no lab was running"))


@lab.command()
@click.argument("key")
@output_options
def release(key: str) -> None:
    """Take back the boards leased under KEY: their sessions end, whoever holds them.

    A session whose client has gone ends by itself, and every lease has a time limit. Use this to end one
    earlier.
    """
    from toolchain.rpc import lab

    boards = lab.release(key)
    emit(
        {"released": boards},
        lambda: click.echo(f"released {', '.join(boards)}" if boards else f"nothing is held under {key}"),
    )


def _show(status: LabStatus | None) -> None:
    if status is None:
        click.echo("no lab runs; `toolchain lab start` starts one")
        return
    click.echo(f"tracker {status.host}:{status.port} (process {status.pid}): {', '.join(status.boards)}")
    rows = [(key, counts["total"], counts["free"], counts["pending"]) for key, counts in status.keys.items()]
    table(["KEY", "TOTAL", "FREE", "PENDING"], rows)
    for lease in status.leases:
        click.echo(
            f"{lease['board'] or lease['key']}: held by {lease['user'] or 'an unnamed client'} "
            f"for {lease['held_s']:.0f} s; taken back in {lease['left_s']:.0f} s"
        )
    for request in status.waiting:
        click.echo(
            f"{request['board'] or request['key']}: {request['user'] or 'an unnamed client'} "
            f"has waited for {request['waited_s']:.0f} s"
        )
    for name, board in status.boards.items():
        if board.waits:
            click.echo(f"{name}: {_waits(board.waits)}")
        if board.state != "serving":
            click.echo(f"{name}: {board.state}" + (f": {board.reason}" if board.reason else ""))


def _waits(wait: dict[str, Any]) -> str:
    holder = wait["holder"]
    who = f"{holder['what']} (process {holder['pid']} there) measures" if holder else "nobody measures now"
    ahead = f", {wait['ahead']} more {'are' if wait['ahead'] > 1 else 'is'} ahead" if wait["ahead"] else ""
    return f"its session has waited for the board for {wait['waited_s']:.0f} s: {who}{ahead}"

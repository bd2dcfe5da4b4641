"""`toolchain board status` and `board power`: show the state of boards, and switch them on and off."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import click

from toolchain.cli import complete
from toolchain.cli.options import Seconds
from toolchain.cli.output import emit, hold_places, note, output_options, wants_json
from toolchain.quantities import counted

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.boards.edge_rt.status import Status
    from toolchain.configuration.power import PowerAction


@click.command()
@click.argument("boards", metavar="[BOARD]…", nargs=-1, shell_complete=complete.boards)
@output_options
def status(boards: tuple[str, ...]) -> None:
    """Show the state of boards: load, temperature, governor, free space, edge-rt, devices, lab.

    Who measures on a board, and who waits for that, is shown too, from whatever host it comes. For classes
    with a GPU, hints say what prevents it from computing, or slows it down. Without a name, all boards are
    asked. Each is shown as soon as it answers. Exits with 1 if a board did not answer.
    """
    from toolchain.boards.edge_rt.status import statuses
    from toolchain.boards.inventory.lookup import find_boards, list_boards

    targets = [board for name in boards for board in find_boards(name)] if boards else list_boards()
    switched = {board.name for board in targets if board.power}
    state_in_lab = ask_lab()
    answers = []
    for answer in statuses(targets):
        answers.append(answer)
        if not wants_json():
            click.echo(_line(answer, state_in_lab(answer.name)))
            if answer.error and answer.name in switched:
                click.echo(f"{'':<20} hint: `toolchain board power cycle {answer.name}`")
    order = [board.name for board in targets]
    answers.sort(key=lambda answer: order.index(answer.name))
    documents = [
        {**answer.to_json(), **state_in_lab(answer.name), "power": answer.name in switched}
        for answer in answers
    ]
    emit(documents, lambda: None)
    if any(answer.error for answer in answers):
        click.get_current_context().exit(1)


def _line(answer: Status, place: dict[str, str | None]) -> str:
    if answer.error:
        return f"{answer.name:<20} {answer.error}" + (f" ({answer.hint})" if answer.hint else "")
    facts = {
        "load": answer.load_1min,
        "temperature": answer.temperature_c and f"{answer.temperature_c:.0f} C",
        "governor": answer.governor,
        "memory free": answer.memory_free_mib and f"{answer.memory_free_mib} MiB",
        "disk free": answer.disk_free_mib and f"{answer.disk_free_mib} MiB",
        "edge-rt": answer.edge_rt or "none",
        "devices": " ".join(answer.devices),
        "ssh": f"{answer.ssh} ({answer.ssh_reason})" if answer.ssh_reason else answer.ssh,
        **{kind["kind"]: _driver(kind, emulated=answer.emulated) for kind in answer.drivers},
        "lab": f"{place['lab']} to {place['lab_user']}" if place["lab_user"] else place["lab"],
    }
    summary = ", ".join(f"{key} {value}" for key, value in facts.items() if value is not None)
    more = [f"hint: {hint}" for hint in answer.hints]
    if answer.holder:
        more.append(f"measures: {answer.holder['what']} (process {answer.holder['pid']} there)")
    more += [
        f"waits for {session['waited_s']:.0f} s: {session['what']} (process {session['pid']} there)"
        for session in answer.waiting
    ]
    return "\n".join([f"{answer.name:<20} {summary}", *(f"{'':<20} {line}" for line in more)])


def _driver(kind: dict[str, Any], *, emulated: bool) -> str:
    """Return the devices that a driver reports as text, or why it reports none."""
    if not kind["names"]:
        return f"none ({kind['problem']})"
    note = "emulated " if emulated else ""
    if not kind["details"]:
        return note + " ".join(kind["names"])
    return "; ".join(
        f"{device['name']} ({note}{device['type']}, "
        f"{counted(device['compute_units'], 'unit')} at {device['clock_mhz']} MHz, "
        f"work groups to {device['max_work_group']}, {device['local_bytes'] // 1024} KiB local, "
        f"{device['global_bytes'] // 2**20} MiB, float{device['float_lanes']}"
        f"{', half' if device['half'] else ''}, driver {device['driver_version']})"
        for device in kind["details"]
    )


def ask_lab() -> Callable[[str], dict[str, str | None]]:
    """Ask the lab (tracker and boards for measuring), if it runs, for the state of its boards.

    Returns
    -------
    function
        Returns `lab` and `lab_user` for a board's name. `lab` is `no` for a board that is not in the lab;
        else `starting`, `away`, `free` or `leased` (by `lab_user`); `unknown` if the lab does not answer.
    """
    from toolchain.errors import ToolchainError
    from toolchain.rpc import lab

    try:
        status = lab.status()
    except ToolchainError:
        return lambda _: {"lab": "unknown", "lab_user": None}
    states = {name: board.state for name, board in status.boards.items()} if status else {}
    users = {str(lease["board"]): str(lease["user"]) for lease in status.leases} if status else {}

    def state_of(name: str) -> dict[str, str | None]:
        state = states.get(name, "no")
        if state == "serving":
            state = "leased" if name in users else "free"
        return {"lab": state, "lab_user": users.get(name)}

    return state_of


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

    target = _exactly(find_board(board), board)
    commands = power_of(target)
    hold_places([target])
    wanted = cast("PowerAction", action)
    if action != "on" and not force:
        _check_free(target)
    waits = not no_wait and action != "off"
    before = boot_if_there(target) if waits and action == "cycle" else ""
    target.transport.close()
    begun = time.monotonic()
    note(f"switching {target.name}: {action}")
    switch(target, wanted, timeout_s)
    switched_s = time.monotonic() - begun
    answered = wait_until_answers(target, wait_s or commands.boot_s, before=before) if waits else None
    document = {
        "board": target.name,
        "action": action,
        "seconds": round(switched_s, 3),
        "answered_s": round(answered.seconds, 3) if answered else None,
        "restarted": answered.restarted if answered else None,
    }

    def print_text() -> None:
        line = f"{target.name}: {action} took {switched_s:.1f} s"
        click.echo(line + (f"; it answers after {answered.seconds:.1f} s" if answered else ""))

    emit(document, print_text)
    if answered and answered.restarted is False:
        note(
            f"warning: {target.name} has not been restarted since: "
            "look whether its power commands switch the right outlet"
        )


def _exactly(board: Board, name: str) -> Board:
    """Return the board; refuse the name of its class or group, since exactly one board is switched."""
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

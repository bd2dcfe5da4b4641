"""`toolchain board provision`: prepares a board, or undoes that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolchain.cli import complete
from toolchain.cli.output import emit, hold_places, note, output_options

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.boards.provisioning import PasswordChange, Provisioned
    from toolchain.boards.provisioning.design import Design
    from toolchain.boards.provisioning.passwords import Passwords
    from toolchain.boards.provisioning.units import OnActivation


@click.command()
@click.argument("board", shell_complete=complete.boards)
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@click.option("--governor", metavar="G", help="Set the CPU governor, such as performance; needs root.")
@click.option("--gpu-governor", metavar="G", help="Set the GPU's governor, such as performance; needs root.")
@click.option(
    "--account",
    metavar="NAME",
    help="Make this account for the toolchain, and log in with it from now on; needs root.",
)
@click.option("--sdk", is_flag=True, help="Also send libedge.so and edge_rt.h, for programs of your own.")
@click.option(
    "--bitstream",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Load this design of the class's VTA into the programmable logic; needs root. "
    "It is gone when the board restarts.",
)
@click.option(
    "--service",
    metavar="APP",
    help="Let systemd keep a program of yours running that serves this app's release; needs root.",
)
@click.option(
    "--command",
    metavar="TEXT",
    help="With --service: that program on the board, with its arguments; ${EDGE_CURRENT} is the release.",
)
@click.option(
    "--memory-mib",
    type=click.IntRange(16),
    default=512,
    show_default=True,
    help="With --service: most memory that it may use.",
)
@click.option(
    "--watchdog",
    type=click.IntRange(1),
    metavar="SECONDS",
    help="With --service: restart it when it has sent no WATCHDOG=1 for this time; see sd_notify(3).",
)
@click.option("--network", is_flag=True, help="With --service: let it use IP, and not Unix sockets alone.")
@click.option(
    "--on-activation",
    type=click.Choice(["restart", "reload", "nothing"]),
    default="restart",
    show_default=True,
    help="With --service: restart it for a new release, send it SIGHUP, or leave it alone.",
)
@click.option(
    "--trust",
    "trust_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Give it this first trust: who may sign releases for it. Later ones come with releases.",
)
@click.option(
    "--passwords",
    type=click.Choice(["on", "off"]),
    help="off: its SSH server accepts keys alone, once a new login by key has worked; on: undo that. "
    "Needs root.",
)
@click.option(
    "--ask-sudo", is_flag=True, help="Ask for sudo's password, where a step needs root and sudo wants one."
)
@click.option(
    "--spare-mib",
    type=click.IntRange(0),
    default=0,
    metavar="MIB",
    help="Want so much room left for networks. By default what is sent has to fit, and little room is told.",
)
@click.option("--ignore-clock", is_flag=True, help="Continue even if the board's clock is wrong by days.")
@click.option(
    "--remove",
    is_flag=True,
    help="Undo what provisioning did: stop edge-rt and services, restore the governors, remove edge-rt and "
    "its files. Releases, and what --passwords set, stay. With --account NAME: also remove that account, if "
    "provisioning made it.",
)
@output_options
def provision(
    board: str,
    dry_run: bool,
    governor: str | None,
    gpu_governor: str | None,
    account: str | None,
    sdk: bool,
    bitstream: Path | None,
    service: str | None,
    command: str | None,
    memory_mib: int,
    watchdog: int | None,
    network: bool,
    on_activation: OnActivation,
    trust_file: Path | None,
    passwords: Passwords | None,
    ask_sudo: bool,
    spare_mib: int,
    ignore_clock: bool,
    remove: bool,
) -> None:
    """Prepare a board: make its folder and install edge-rt; do only what is missing."""
    from toolchain.api.rates import measure_if_unknown
    from toolchain.boards import provisioning
    from toolchain.boards.inventory.lookup import find_board
    from toolchain.boards.provisioning.units import Service
    from toolchain.errors import UsageError

    others = governor or gpu_governor or sdk or ignore_clock or bitstream or service or trust_file
    if remove and (others or passwords):
        raise UsageError(
            "--remove undoes everything but --passwords off",
            "leave out --governor, --gpu-governor, --sdk, --bitstream, --service, --trust, --passwords and "
            "--ignore-clock",
        )
    for option, given in (("--bitstream", bitstream), ("--service", service), ("--passwords", passwords)):
        if given and account:
            raise UsageError(f"--account and {option} exclude each other", f"leave out {option} at first")
    if (service is None) != (command is None):
        raise UsageError("--service and --command belong together", "give both, or none")
    found = find_board(board)
    hold_places([found])

    def ask() -> str:
        return str(click.prompt(f"sudo password on {board}", hide_input=True, err=True))

    how = provisioning.How(dry_run, ask if ask_sudo else None, note)
    change = None
    if remove:
        result = provisioning.unprovision(found, account, how)
    else:
        program = None
        if service and command:
            program = Service(service, command, memory_mib, watchdog, network, on_activation)
        options = provisioning.SetupOptions(
            governor, account, sdk, ignore_clock, gpu_governor, program, spare_mib
        )
        design = _design(found, bitstream) if bitstream else None
        result = provisioning.provision(found, options, how, design)
        _log_in_from_now_on(found, result)
        if trust_file and not dry_run:
            _give_trust(find_board(board), trust_file)
        if passwords:
            change = provisioning.set_passwords(find_board(board), passwords, how)
        if not dry_run:
            measure_if_unknown(find_board(board), note)
    document = {**result.to_json(), "passwords": change.to_json() if change else None}
    emit(document, lambda: _show(result, change, remove=remove))


def _give_trust(board: Board, file: Path) -> None:
    from toolchain.boards.edge_rt.install import install
    from toolchain.boards.provisioning import give_class
    from toolchain.releases.trust import read_trust
    from toolchain.rollouts.attempt import give_first_trust

    chain = read_trust(file)
    give_first_trust(board, install(board).program, chain.envelopes[0])
    give_class(board)
    note(f"board {board.name} trusts the keys of {file}")


def _design(board: Board, file: Path) -> Design:
    """Read a bitstream for the VTA of the board's class."""
    from toolchain.boards.provisioning.design import read_design
    from toolchain.devices.device import VTA
    from toolchain.errors import UsageError
    from toolchain.vta.config_file import find_config

    device = next((each for each in board.profile.devices if each.kind == VTA), None)
    if device is None or device.config is None:
        raise UsageError(
            f"--bitstream: board class {board.profile.name} has no device of kind {VTA}",
            "add one to its board.toml: docs/howto/add-a-board.md",
        )
    config = find_config(device.config)
    return read_design(file, config.bitstream, config.hw_ver, config.isa_rev)


def _log_in_from_now_on(board: Board, result: Provisioned) -> None:
    from toolchain.boards.inventory import register

    if result.done and result.moved and board.name in register.names():
        file = register.log_in_as(board.name, result.facts.user)
        note(f"{file}: the login of board {board.name} is now {result.facts.user}")


def _show(result: Provisioned, passwords: PasswordChange | None, *, remove: bool) -> None:
    for warning in result.warnings:
        click.echo(f"warning: {warning}")
    for line in result.skipped:
        click.echo(f"left out: {line}")
    if not result.steps:
        click.echo(f"{result.board}: nothing to do" + ("" if remove else f", ready in {result.facts.root}"))
    elif result.done:
        click.echo(
            f"{result.board} is " + ("as it was before" if remove else f"ready in {result.facts.root}")
        )
    else:
        for number, step in enumerate(result.steps, 1):
            click.echo(f"{number}. {step.title}{' (as root)' if step.needs_root else ''}")
            for line in str(step.action).splitlines():
                click.echo(f"       {line}")
    if passwords is not None:
        _show_passwords(result.board, passwords)


def _show_passwords(board: str, found: PasswordChange) -> None:
    if found.file is None:
        click.echo(f"passwords would be {found.state}")
        return
    click.echo(f"passwords are {found.state}{'' if found.changed else ' already'}")
    if found.state == "off":
        note(f"accounts without a key cannot log in over SSH now; it is done by {found.file}")
        note(f"the way back: toolchain board provision {board} --passwords on")

"""`toolchain board provision`: prepares a board, or undoes that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolchain.cli import complete
from toolchain.cli.options import gathered
from toolchain.cli.output import emit, hold_places, note, output_options
from toolchain.errors import UsageError

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.boards.provisioning import PasswordChange, Provisioned, SetupOptions
    from toolchain.boards.provisioning.design import Design
    from toolchain.boards.provisioning.passwords import Passwords
    from toolchain.boards.provisioning.units import OnActivation, Service


def _service(
    service: str | None,
    command: str | None,
    memory_mib: int,
    watchdog: int | None,
    network: bool,
    on_activation: OnActivation,
) -> Service | None:
    from toolchain.boards.provisioning.units import Service

    if (service is None) != (command is None):
        raise UsageError("--service and --command belong together", "give both, or none")
    if not (service and command):
        return None
    return Service(service, command, memory_mib, watchdog, network, on_activation)


def _setup(
    governor: str | None,
    gpu_governor: str | None,
    account: str | None,
    sdk: bool,
    service: Service | None,
    spare_mib: int,
    ignore_clock: bool,
) -> SetupOptions:
    from toolchain.boards.provisioning import SetupOptions

    return SetupOptions(governor, account, sdk, ignore_clock, gpu_governor, service, spare_mib)


@dataclass(frozen=True)
class Additions:
    """Bitstream, trust and passwords: options of a board apart from its setup.

    Attributes
    ----------
    bitstream
        The file of a VTA's design; it is gone when the board restarts.
    trust_file
        The first trust.
    passwords
        Whether its SSH server accepts passwords; None: as it is.
    """

    bitstream: Path | None
    trust_file: Path | None
    passwords: Passwords | None


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
@gathered("service", _service)
@gathered("setup", _setup)
@gathered("additions", Additions)
def provision(
    board: str, setup: SetupOptions, additions: Additions, dry_run: bool, ask_sudo: bool, remove: bool
) -> None:
    """Prepare a board: make its folder and install edge-rt; do only what is missing."""
    from toolchain.api.rates import measure_if_unknown
    from toolchain.boards import provisioning
    from toolchain.boards.inventory.lookup import find_board

    _check(setup, additions, remove=remove)
    target = find_board(board)
    hold_places([target])

    def ask() -> str:
        return str(click.prompt(f"sudo password on {board}", hide_input=True, err=True))

    how = provisioning.How(dry_run, ask if ask_sudo else None, note)
    change = None
    if remove:
        result = provisioning.unprovision(target, setup.account, how)
    else:
        design = _design(target, additions.bitstream) if additions.bitstream else None
        result = provisioning.provision(target, setup, how, design)
        _log_in_from_now_on(target, result)
        if additions.trust_file and not dry_run:
            _give_trust(find_board(board), additions.trust_file)
        if additions.passwords:
            change = provisioning.set_passwords(find_board(board), additions.passwords, how)
        if not dry_run:
            measure_if_unknown(find_board(board), note)
    document = {**result.to_json(), "passwords": change.to_json() if change else None}
    emit(document, lambda: _show(result, change, remove=remove))


def _check(setup: SetupOptions, additions: Additions, *, remove: bool) -> None:
    """Refuse options that exclude each other."""
    from toolchain.boards.provisioning import SetupOptions

    wants_setup = replace(setup, account=None, spare_mib=0) != SetupOptions()
    if remove and (wants_setup or additions != Additions(None, None, None)):
        raise UsageError(
            "--remove undoes everything but --passwords off",
            "leave out --governor, --gpu-governor, --sdk, --bitstream, --service, --trust, --passwords and "
            "--ignore-clock",
        )
    for option, value in (
        ("--bitstream", additions.bitstream),
        ("--service", setup.service),
        ("--passwords", additions.passwords),
    ):
        if value and setup.account:
            raise UsageError(f"--account and {option} exclude each other", f"leave out {option} at first")


def _give_trust(board: Board, file: Path) -> None:
    from toolchain.boards.edge_rt.install import install
    from toolchain.boards.provisioning import give_class
    from toolchain.releases.trust import read_trust
    from toolchain.rollouts.installer import give_first_trust

    chain = read_trust(file)
    give_first_trust(board, install(board).program, chain.envelopes[0])
    give_class(board)
    note(f"board {board.name} trusts the keys of {file}")


def _design(board: Board, file: Path) -> Design:
    """Read a bitstream for the VTA of the board's class."""
    from toolchain.boards.provisioning.design import read_design
    from toolchain.devices.device import VTA
    from toolchain.vta.config_file import find_config

    device = next((candidate for candidate in board.profile.devices if candidate.kind == VTA), None)
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


def _show_passwords(board: str, change: PasswordChange) -> None:
    if change.file is None:
        click.echo(f"passwords would be {change.state}")
        return
    click.echo(f"passwords are {change.state}{'' if change.changed else ' already'}")
    if change.state == "off":
        note(f"accounts without a key cannot log in over SSH now; it is done by {change.file}")
        note(f"the way back: toolchain board provision {board} --passwords on")

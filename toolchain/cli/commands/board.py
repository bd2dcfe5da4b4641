"""`toolchain board`: lists, adds, provisions and emulates boards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolchain.cli import complete
from toolchain.cli.commands import board_ssh
from toolchain.cli.commands.board_accept import accept, probe
from toolchain.cli.commands.board_provision import provision
from toolchain.cli.commands.board_status import ask_lab, power, status
from toolchain.cli.output import emit, note, output_options, table
from toolchain.cli.progress import thinned_out
from toolchain.devices.table import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolchain.architectures.rates import ClusterRates
    from toolchain.boards.board import Board
    from toolchain.configuration.power import PowerCommands
    from toolchain.devices.device import Device
    from toolchain.profiles import Profile


@click.group()
@output_options
def board() -> None:
    """Add and maintain boards; start and stop emulated ones."""


for _command in (*board_ssh.COMMANDS, provision, probe, status, power, accept):
    board.add_command(_command)


@board.command("list")
@output_options
def list_boards() -> None:
    """List the boards, and the board classes."""
    from toolchain.boards.inventory import lookup as inventory
    from toolchain.profiles import class_names

    boards, broken = inventory.shown_boards()

    def print_text() -> None:
        _print_table(boards)
        for name, error in broken.items():
            click.echo(f"{name} is broken: {error}")
        click.echo(f"\nclasses: {', '.join(class_names())}")

    emit([_row(b) for b in boards] + [{"name": n, "error": str(e)} for n, e in broken.items()], print_text)


@board.command()
@click.argument("board", shell_complete=complete.boards)
@click.option(
    "--devices",
    is_flag=True,
    help="Also ask the board's drivers for their devices; installs edge-rt there first.",
)
@output_options
def show(board: str, devices: bool) -> None:
    """Show the facts of a board or a class, and whether the board is in the running lab."""
    from toolchain.boards.inventory.lookup import find_board, find_target

    target = find_target(board)
    drivers = _drivers(find_board(board)) if devices else {}
    document = {
        "name": board,
        "class": target.profile.name,
        "is_board": target.board is not None,
        "emulated": target.emulated,
        "record_class": target.record_class,
        **(ask_lab()(target.board) if target.board else {}),
        **_reach(target.board),
        **target.profile.model_dump(mode="json", exclude=_SHOWN_APART),
        "devices": [_device(device) for device in target.profile.devices],
        "class_rates": _class_rates(target.profile),
        "rates": _board_rates(target.board),
        **drivers,
    }

    def print_text() -> None:
        for key, value in document.items():
            click.echo(f"{key:<14}{_text(value)}")

    emit(document, print_text)


_SHOWN_APART: Any = {"name": True, "devices": True, "clusters": {"__all__": {"rates"}}}


@board.group()
@output_options
def emulate() -> None:
    """Emulate boards: processes, containers or machines of this host."""


def _test_bed_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for row in OWN.values():
        if row.test_bed is not None:
            option = click.option(f"--{row.name}", "device", flag_value=row.name, help=row.test_bed.help)
            function = option(function)
    return function


@emulate.command()
@click.argument("class_name", metavar="CLASS", shell_complete=complete.classes)
@click.option(
    "--kind",
    type=click.Choice(["auto", "process", "container", "system"]),
    default="auto",
    show_default=True,
    help="process: programs under qemu's user mode; container: a system with an SSH server, in Docker; "
    "system: a whole machine with a kernel and systemd, under QEMU; auto: container if Docker answers.",
)
@click.option("--name", metavar="N", help="Name of the board; default: CLASS-emulated.")
@click.option("--group", "groups", metavar="G", multiple=True, help="Group of the board; may be repeated.")
@_test_bed_options
@output_options
def start(class_name: str, kind: str, name: str | None, groups: tuple[str, ...], device: str | None) -> None:
    """Start an emulated board of a class and wait until it answers.

    A container or machine that was stopped, by a reboot for instance, is started again with its files.
    """
    from toolchain.boards.emulation import emulated
    from toolchain.profiles import load_profile

    load_profile(class_name)
    note(f"starting an emulated {class_name}")
    board = emulated.start(class_name, kind=kind, name=name, progress=thinned_out(note), device=device or "")
    emulated.join_groups(board.name, groups)
    way = emulated.kind(board.name)
    document = {**_row(board), "kind": way, "state": emulated.condition(board.name)}
    emit(document, lambda: click.echo(f"{board.name} is ready ({way})"))


@emulate.command()
@click.argument("name", shell_complete=complete.emulated)
@output_options
def stop(name: str) -> None:
    """Stop an emulated board and remove its files."""
    from toolchain.boards.emulation import emulated

    emulated.stop(name)
    emit({"name": name, "stopped": True}, lambda: click.echo(f"{name} is stopped"))


@emulate.command("list")
@output_options
def list_emulated() -> None:
    """List the emulated boards, how each is emulated and whether it runs."""
    from toolchain.boards.emulation import emulated

    boards = emulated.list_emulated()
    how = {b.name: {"kind": emulated.kind(b.name), "state": emulated.condition(b.name)} for b in boards}

    def print_text() -> None:
        rows = [(b.name, b.profile.name, how[b.name]["kind"], how[b.name]["state"]) for b in boards]
        table(["BOARD", "CLASS", "KIND", "STATE"], rows)

    emit([{**_row(board), **how[board.name]} for board in boards], print_text)


def _row(board: Board) -> dict[str, Any]:
    return {
        "name": board.name,
        "class": board.profile.name,
        "emulated": board.emulated,
        "shared_cpu": board.shared_cpu,
        "key": board.tracker_key,
        **_reach(board.name),
    }


def _device(device: Device) -> dict[str, Any]:
    """Return a device as its class describes it, with the bitstream of a VTA or the name of its plugin."""
    from toolchain.devices.table import PLUGINS
    from toolchain.vta.config_file import find_config

    facts = device.model_dump(mode="json", exclude_none=True)
    if device.kind not in OWN:
        facts["plugin"] = ", ".join(str(plugin) for plugin in PLUGINS.installed if plugin.row == device.kind)
    if device.config is None:
        return facts
    config = find_config(device.config)
    return {**facts, "bitstream": config.bitstream, "isa_rev": config.isa_rev}


def _class_rates(profile: Profile) -> list[dict[str, Any]]:
    """Return the speeds of one core of each cluster, by which code is chosen, and their source."""
    from toolchain.backends.table import class_rates

    rates = []
    for cluster in profile.clusters:
        row = class_rates(profile.triple, cluster.cpu)
        if cluster.rates is not None:
            rates.append({"cpu": cluster.cpu, "source": "measured", **_speeds(cluster.rates)})
        elif row is not None:
            speeds = {"gflops": row.peak / 1e9, "memory_gb_s": row.stream / 1e9}
            rates.append({"cpu": cluster.cpu, "source": row.source, **speeds})
    return rates


def _speeds(rates: ClusterRates) -> dict[str, Any]:
    return {"gops": rates.one.gops, "gb_s": rates.one.gb_s}


def _board_rates(name: str | None) -> list[dict[str, Any]]:
    """Return the measured speeds of one core of each cluster of a board; empty if it was not measured."""
    from toolchain.boards.inventory.rates import kept_rates

    rates = kept_rates(name) if name else None
    if rates is None:
        return []
    source = f"measured {rates.measured} by edge-rt {rates.edge_rt}"
    return [{"cpu": cluster.core, "source": source, **_speeds(cluster)} for cluster in rates.clusters]


def _drivers(board: Board) -> dict[str, Any]:
    """Return the answers of a board's drivers about its devices, in the form of `board status`."""
    from toolchain.boards.edge_rt.install import install
    from toolchain.boards.edge_rt.status import drivers_of

    return {"drivers": drivers_of(install(board, note, drivers=True).facts.devices, board)}


def _reach(name: str | None) -> dict[str, Any]:
    """Return the address, groups and power commands of a board; of an emulated board its groups."""
    from toolchain.boards.emulation import stored
    from toolchain.boards.ssh.address import show_address
    from toolchain.boards.ssh.hostkeys import fingerprint
    from toolchain.configuration.keys import THIS_HOST
    from toolchain.configuration.settings import configuration

    entry = configuration().boards.get(name or "")
    if entry is None:
        return {"groups": list(stored.groups_of(name))} if name in stored.names() else {}
    if entry.host == THIS_HOST:
        return {"address": THIS_HOST, "groups": list(entry.groups), "device": entry.device}
    return {
        "address": show_address(entry.user, entry.host, entry.port),
        "fingerprint": fingerprint(entry.host_key),
        "jump": entry.jump,
        "ssh": entry.ssh,
        "groups": list(entry.groups),
        "root": entry.root,
        "device": entry.device,
        "power": _power(entry.power),
    }


def _power(power: PowerCommands | None) -> dict[str, str | None] | None:
    """Return the programs that switch a board: their names alone, since arguments may hold passwords."""
    from toolchain.configuration.power import ACTIONS

    if power is None:
        return None
    return {action: power.program(action) for action in ACTIONS}


def _print_table(boards: Sequence[Board]) -> None:
    table(
        ["BOARD", "CLASS", "EMULATED", "ADDRESS", "DESCRIPTION"],
        [
            (
                b.name,
                b.profile.name,
                "yes" if b.emulated else "no",
                _reach(b.name).get("address", "-"),
                b.profile.description,
            )
            for b in boards
        ],
    )


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value) or "-"
    if isinstance(value, dict):
        return " ".join(f"{key}={_text(item)}" for key, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)

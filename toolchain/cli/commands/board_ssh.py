"""`toolchain board add`, `repin`, `exec`, `shell`, `logs`, `remove`: commands for boards over SSH."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from toolchain.cli import complete
from toolchain.cli.options import Seconds, gathered
from toolchain.cli.output import emit, note, output_options, wants_json
from toolchain.cli.terminal import bytes_for
from toolchain.errors import UsageError

if TYPE_CHECKING:
    from toolchain.boards.inventory.adding import NewBoard

_board = click.argument("board", shell_complete=complete.boards)


@dataclass(frozen=True)
class HostKeyAnswer:
    """The user's answer in advance to the question whether a host key is the board's.

    Attributes
    ----------
    fingerprint
        The expected key's; None: any key is shown.
    yes
        Whether nothing is asked.
    """

    fingerprint: str | None
    yes: bool

    def accepts(self, host: str, fingerprint: str) -> bool:
        """Return whether a host's key is the board's: the expected one, or one that the user confirms.

        Raises
        ------
        UsageError
            It is not the expected key, or there is no terminal to ask.
        """
        if self.fingerprint is not None:
            if fingerprint != self.fingerprint:
                raise UsageError(
                    f"--fingerprint {self.fingerprint}: {host} shows the host key {fingerprint}; nothing was "
                    "changed",
                    "look at the board: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
                )
            return True
        if not sys.stdin.isatty():
            raise UsageError(
                f"nobody to ask whether {fingerprint} is the host key of {host}; nothing was changed",
                f"if it is: --fingerprint {fingerprint}",
            )
        return click.confirm("Is that the board's?", err=True)


def _new_board(
    address: str,
    board_class: str,
    name: str | None,
    identity: Path | None,
    jump: str | None,
    groups: tuple[str, ...],
    ssh: Literal["auto", "paramiko", "openssh"],
) -> NewBoard:
    from toolchain.boards.inventory.adding import NewBoard

    return NewBoard(address, board_class, name, identity, jump, groups, ssh)


@click.command()
@click.argument("address", metavar="[USER@]HOST[:PORT]")
@click.option(
    "--class",
    "board_class",
    metavar="C",
    required=True,
    shell_complete=complete.classes,
    help="Board class of the board.",
)
@click.option("--name", metavar="N", help="Name of the board; default: the first part of HOST.")
@click.option(
    "--fingerprint", metavar="SHA256:…", help="Expected host key: pinned without a question if it matches."
)
@click.option("--yes", is_flag=True, help="Pin the host key that the board shows, whichever it is.")
@click.option("--install-key", is_flag=True, help="Ask for the password once, to install your public key.")
@click.option(
    "--identity", type=click.Path(path_type=Path), metavar="FILE", help="The private key to log in with."
)
@click.option("--jump", metavar="[USER@]HOST[:PORT]", help="Jump host to connect through.")
@click.option("--group", "groups", metavar="G", multiple=True, help="Group of the board; may be repeated.")
@click.option(
    "--ssh",
    type=click.Choice(["auto", "paramiko", "openssh"]),
    default="auto",
    show_default=True,
    help="Who speaks with its SSH server; auto: the OpenSSH client where paramiko lacks something.",
)
@output_options
@gathered("entry", _new_board)
@gathered("host_key", HostKeyAnswer)
def add(entry: NewBoard, host_key: HostKeyAnswer, install_key: bool) -> None:
    """Add a board to toolchain.toml.

    Shows the fingerprint of its host key and pins the key once you say yes; no other key is accepted after
    that. Your ssh_config, agent and ProxyJump are used.
    """
    from toolchain.api.rates import measure_if_unknown
    from toolchain.boards.edge_rt.install import is_provisioned
    from toolchain.boards.inventory.adding import add_board

    def trusted(host: str, shown: str) -> bool:
        if host_key.fingerprint is None:
            note(f"the host key of {host} is {shown}")
            if host_key.yes:
                return True
        return host_key.accepts(host, shown)

    def password(login: str) -> str:
        if not sys.stdin.isatty():
            raise UsageError(
                "--install-key: nobody to ask for the password", "run it in a terminal, or ssh-copy-id"
            )
        return str(click.prompt(f"Password of {login} (used once, not kept)", hide_input=True, err=True))

    added = add_board(entry, trusted, password if install_key else None)
    name = added.board.name
    with contextlib.closing(added.board.transport):
        if is_provisioned(added.board):  # by another host; else `board provision` measures
            measure_if_unknown(added.board, note)
    document = {
        "name": name,
        "file": str(added.file),
        **added.entry.model_dump(mode="json", by_alias=True),
        "reached_by": added.reached.way,
        "reached_reason": added.reached.reason or None,
    }
    way = "paramiko" if added.reached.way == "paramiko" else f"the OpenSSH client ({added.reached.reason})"

    def print_text() -> None:
        click.echo(f"{name} is in {added.file}, and is reached by {way}")
        click.echo(f"next: toolchain board provision {name}")

    emit(document, print_text)


@click.command()
@_board
@click.option(
    "--fingerprint", metavar="SHA256:…", help="Expected host key: pinned without a question if it matches."
)
@click.option(
    "--yes", is_flag=True, help="Ask nothing; with --fingerprint alone, since another key may be anybody's."
)
@output_options
@gathered("host_key", HostKeyAnswer)
def repin(board: str, host_key: HostKeyAnswer) -> None:
    """Pin the new host key of a board that was set up anew.

    Shows the fingerprints of the pinned key and of the new one, and pins the new one once you say yes. The
    board's groups, root, power and the rest of its entry stay; the machine's other devices get the key too.
    """
    from toolchain.boards.inventory.adding import repin_board

    if host_key.yes and host_key.fingerprint is None:
        raise UsageError(
            "--yes would pin whatever key is shown, also that of somebody between you and the board",
            "give the key's: --fingerprint SHA256:…, from `ssh-keygen -lf` on the board",
        )

    def trusted(host: str, old: str, new: str) -> bool:
        note(f"the host key of {host} was {old}")
        note(f"the host key of {host} is  {new}")
        return host_key.accepts(host, new)

    pinned = repin_board(board, trusted)
    document = {
        "name": board,
        "boards": list(pinned.names),
        "file": str(pinned.file),
        "old": pinned.old,
        "new": pinned.new,
        "changed": pinned.old != pinned.new,
        "login_error": pinned.login_error,
    }
    if pinned.login_error:
        note(f"the login does not work yet: {pinned.login_error}")

    def print_text() -> None:
        if pinned.old == pinned.new:
            click.echo(f"{board} shows the pinned key {pinned.old}; nothing was changed")
        else:
            click.echo(f"{', '.join(pinned.names)}: pinned {pinned.new} in {pinned.file}")

    emit(document, print_text)


@click.command()
@click.argument("name", shell_complete=complete.boards)
@output_options
def remove(name: str) -> None:
    """Remove a board from toolchain.toml; nothing is changed on the board."""
    from toolchain.boards.emulation import stored
    from toolchain.boards.inventory import register

    if name in stored.names() and name not in register.names():
        raise UsageError(f"{name} is an emulated board", f"`toolchain board emulate stop {name}`")
    file = register.take_out(name)
    emit({"name": name, "file": str(file)}, lambda: click.echo(f"{name} is no longer in {file}"))


@click.command(name="exec", context_settings={"ignore_unknown_options": True})
@_board
@click.argument("argv", metavar="-- COMMAND…", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--timeout", type=Seconds(), default=600.0, show_default=True, metavar="S",
    help="Seconds until the command is killed.",
)  # fmt: skip
@output_options
def execute(board: str, argv: tuple[str, ...], timeout: float) -> None:
    """Run a command in the board's folder and exit with its code.

    Output is shown while the command runs; with --json, at its end: the first 16 MiB of standard output,
    the last 1 MiB of standard error, and how many bytes were dropped. Control characters are escaped on a
    terminal. The command gets no input; use `board shell` for that.
    """
    from toolchain.boards.inventory.lookup import find_board
    from toolchain.boards.output.live import run_live

    transport = find_board(board).transport
    if wants_json():
        completed = transport.run(list(argv), timeout=timeout)
        code = completed.returncode
        document = {
            "returncode": code,
            "stdout": completed.stdout.decode(errors="replace"),
            "stderr": completed.stderr.decode(errors="replace"),
            "stdout_dropped": completed.stdout_dropped,
            "stderr_dropped": completed.stderr_dropped,
        }
        emit(document, lambda: None)
    else:
        code = run_live(transport, argv, bytes_for(sys.stdout), bytes_for(sys.stderr), timeout)
    click.get_current_context().exit(128 - code if code < 0 else code)


@click.command()
@_board
@output_options
def shell(board: str) -> None:
    """Log in on a board with the OpenSSH client, which accepts only the pinned host key."""
    from toolchain.boards.inventory.lookup import login_command

    argv = login_command(board)
    sys.stdout.flush()
    os.execvp(argv[0], argv)  # noqa: S606 - no shell is the point


@click.command()
@_board
@click.option(
    "-n", "--lines", type=click.IntRange(min=1), default=50, show_default=True, help="Lines from the end."
)
@output_options
def logs(board: str, lines: int) -> None:
    """Show the last lines that a board's RPC server and tunnel, started by the lab, wrote to their log."""
    from toolchain.boards.inventory.lookup import find_board
    from toolchain.rpc import state

    name = find_board(board).name
    file = state.folder() / "log" / f"{name}.log"
    if not file.is_file():
        raise UsageError(
            f"no lab has used board {name} yet ({file} is not there)", f"toolchain lab start --board {name}"
        )
    text = file.read_text(errors="replace").splitlines()[-lines:]
    emit({"file": str(file), "lines": text}, lambda: click.echo("\n".join(text)))


COMMANDS = (add, repin, execute, shell, logs, remove)

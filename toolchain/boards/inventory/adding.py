"""Adds a board to `toolchain.toml`, or pins its new host key: tries the login, writes the entry."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolchain.boards.board import Board
from toolchain.boards.emulation import stored
from toolchain.boards.inventory import register
from toolchain.boards.ssh import scripts
from toolchain.boards.ssh.address import SshAddress, parse_address
from toolchain.boards.ssh.hostkeys import checked_host_key, fingerprint
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import LostError, Reached
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.keys import THIS_HOST, BoardEntry
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.plain import expanded
from toolchain.foreign import last_line
from toolchain.profiles import load_profile
from toolchain.runtime import arch_of

if TYPE_CHECKING:
    from toolchain.boards.ssh.connection import SshConnection

_INSTALL_S = 30.0


@dataclass(frozen=True)
class NewBoard:
    """The board that the user asks to add; `address` is `[USER@]HOST[:PORT]`."""

    address: str
    board_class: str
    name: str | None = None
    identity: Path | None = None
    jump: str | None = None
    groups: tuple[str, ...] = ()
    ssh: Literal["auto", "paramiko", "openssh"] = "auto"


@dataclass(frozen=True)
class Added:
    """A board that was added: its entry, the file that has it, and how it was reached.

    Attributes
    ----------
    board
        The board itself; its transport holds the connection by which its login was tried.
    """

    board: Board
    entry: BoardEntry
    file: Path
    reached: Reached


def add_board(
    wanted: NewBoard, trusted: Callable[[str, str], bool], password: Callable[[str], str] | None = None
) -> Added:
    """Log in on a board; if that succeeds, add it to `toolchain.toml`.

    Parameters
    ----------
    trusted
        Given a host and the fingerprint of its key, returns whether the key is the board's.
    password
        Given `USER@HOST`, returns the password. Called once, if the board accepts no key; the user's
        public key is then installed on the board.

    Raises
    ------
    UsageError
        Address, class or name cannot be used, the key is not trusted, or no login is possible.
    ToolchainError
        The board cannot be reached, or the file cannot be written.
    """
    from toolchain.boards.ssh.ways import ask_host_key

    user, host, port = parse_address(wanted.address)
    arch_of(load_profile(wanted.board_class))
    name = register.free_name(wanted.name, host)
    identity = expanded(wanted.identity).absolute() if wanted.identity else None
    if identity and not identity.is_file():
        raise UsageError(f"--identity {wanted.identity}: no such file", "give the private key's file")
    address = SshAddress(host, port, user, "", identity, wanted.jump, name=name, ssh=wanted.ssh)
    host_key = ask_host_key(address)
    if not trusted(host, fingerprint(host_key)):
        raise UsageError(
            f"the host key of {host}, {fingerprint(host_key)}, was not accepted; nothing was changed",
            "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the board",
        )
    address = replace(address, host_key=host_key)
    entry = BoardEntry(
        board_class=wanted.board_class,
        host=host,
        port=port,
        user=user,
        host_key=host_key,
        identity=identity,
        jump=wanted.jump,
        groups=wanted.groups,
        ssh=wanted.ssh,
    )
    with contextlib.ExitStack() as unless_added:
        connection = _log_in(address, password)
        unless_added.callback(connection.close)
        file = register.enter(name, entry)
        board = replace(register.load(name), transport=SshTransport(address, entry.root, connection))
        unless_added.pop_all()
    return Added(board, entry, file, Reached(connection.way, connection.reason))


@dataclass(frozen=True)
class Repinned:
    """Boards of one machine whose host key was pinned anew: fingerprints of the old key and of the new one.

    Attributes
    ----------
    login_error
        Why the login does not work yet; None if it does.
    """

    names: tuple[str, ...]
    file: Path
    old: str
    new: str
    login_error: str | None


def repin_board(name: str, trusted: Callable[[str, str, str], bool]) -> Repinned:
    """Pin the host key that a board shows now, in place of its old one; the rest of its entry stays.

    Parameters
    ----------
    trusted
        Given a host and the fingerprints of its old and its new key, returns whether the new one is the
        board's. Not asked if both are the same.

    Raises
    ------
    UsageError
        There is no such board with a login, or the key is not trusted.
    ToolchainError
        The board cannot be reached, or the file cannot be written.
    """
    from toolchain.boards.ssh.ways import ask_host_key

    entry = configuration().boards.get(name)
    if entry is None and name in stored.names():
        raise UsageError(
            f"{name} is an emulated board, whose host key is pinned as it is made; nothing was changed",
            stored.removal_hint(name),
        )
    if entry is None or entry.host == THIS_HOST:
        known = ", ".join(name for name, other in configuration().boards.items() if other.host != THIS_HOST)
        raise UsageError(
            f"{name}: {configuration().file or FILE_NAME} has no such board with a host key",
            f"the boards there are: {known or 'none'}",
        )
    address = register.address_of(name, entry)
    host_key = ask_host_key(replace(address, host_key=""))
    old, new = fingerprint(address.host_key), fingerprint(host_key)
    names: tuple[str, ...] = (name,)
    file = configuration().file
    if old != new or file is None:
        if not trusted(entry.host, old, new):
            raise UsageError(
                f"the host key of {entry.host}, {new}, was not accepted; nothing was changed",
                "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the board",
            )
        boards = configuration().boards
        same = register.names_of_machine(name)
        names = tuple(name for name in same if boards[name].host_key == entry.host_key)
        file = register.pin(names, host_key)
    return Repinned(names, file, old, new, _login_error(replace(address, host_key=host_key)))


def _login_error(address: SshAddress) -> str | None:
    """Return why a login fails: a board that was set up anew may not have the user's key yet."""
    try:
        _log_in(address, None).close()
    except ToolchainError as error:
        return str(error)
    return None


def _log_in(address: SshAddress, password: Callable[[str], str] | None) -> SshConnection:
    """Return a connection in which commands run; a password is asked for if no key is accepted."""
    from toolchain.boards.ssh.authentication import RefusedError
    from toolchain.boards.ssh.ways import connect

    try:
        connection = connect(address)
    except RefusedError:
        if password is None:
            raise
        _install_key(address, password)
        connection = connect(address)
    try:
        _check_commands(address, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_commands(address: SshAddress, connection: SshConnection) -> None:
    """Refuse a login that starts no commands: `ForceCommand` and shells such as nologin let one log in."""
    try:
        completed = SshTransport(address, ".", connection).run(["sh", "-c", "echo ready"])
    except LostError:
        raise
    except ToolchainError as error:
        raise _no_commands(address, error.message.removeprefix(f"{address.label}: ")) from error
    if completed.stdout.strip() != b"ready":
        raise _no_commands(address, last_line(completed.stderr))


def _no_commands(address: SshAddress, reason: str) -> UsageError:
    return UsageError(
        f"{address.label}: the login works, but it starts no command: {reason}; nothing was changed",
        "use an account that may run commands: its login shell in /etc/passwd is no nologin or false, "
        "and no `ForceCommand` in sshd_config or `command=` in authorized_keys applies to it",
    )


def _install_key(address: SshAddress, password: Callable[[str], str]) -> None:
    from toolchain.boards.ssh.connection import connect
    from toolchain.boards.ssh.remote import Script
    from toolchain.boards.ssh.route import resolve
    from toolchain.boards.ssh.ways import client_reason

    if reason := client_reason(address):
        raise UsageError(
            f"--install-key: no password can be given to the OpenSSH client, which is used here: {reason}",
            f"put your key there by `ssh-copy-id {address.host}`, and run the command again without it",
        )
    route = resolve(address)
    key = public_key(route.identities)
    connection = connect(address, password(f"{route.user}@{route.host}"))
    try:
        with Script(connection.open(), scripts.INSTALL_KEY, ".", key) as script:
            code = script.wait(_INSTALL_S)
            if code != 0:
                raise ToolchainError(
                    f"{address.label}: ~/.ssh/authorized_keys cannot be written: {script.last_words()}"
                )
    finally:
        connection.close()


def public_key(identities: tuple[Path, ...]) -> str:
    """Return the first public key that has its private key in `identities`, as one line.

    Raises
    ------
    UsageError
        None of them has a file with its public key.
    """
    for file in identities:
        public = file.with_name(file.name + ".pub")
        lines = public.read_text(errors="replace").splitlines() if public.is_file() else []
        if line := next(filter(_is_public_key, lines), None):
            return line.strip()
    looked = ", ".join(f"{file}.pub" for file in identities)
    raise UsageError(
        f"you have no public key to install; looked for {looked}", "make one: ssh-keygen -t ed25519"
    )


def _is_public_key(line: str) -> bool:
    try:
        checked_host_key(line)
    except UsageError:
        return False
    return True

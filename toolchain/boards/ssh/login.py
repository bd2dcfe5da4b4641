"""The OpenSSH client's command line to log in on a board."""

from __future__ import annotations

import shutil

from toolchain.boards.inventory.lookup import find_board
from toolchain.boards.ssh.hostkeys import known_hosts
from toolchain.boards.ssh.transport import SshTransport
from toolchain.errors import MissingError, UsageError


def login_command(name: str) -> list[str]:
    """Return what to execute to get a shell on the board `name`.

    Raises
    ------
    UsageError
        There is no such board, or it is reached without a login.
    MissingError
        No OpenSSH client is here.
    """
    from toolchain.boards.ssh.route import openssh_options

    transport = find_board(name).transport
    if not isinstance(transport, SshTransport):
        raise UsageError(
            f"board {name} is a folder of this host: there is nothing to log in to",
            f"`toolchain board exec {name} -- COMMAND` runs a command there",
        )
    client = shutil.which("ssh")
    if client is None:
        raise MissingError("no OpenSSH client on this machine ('ssh')", "apt-get install openssh-client")
    address = transport.address
    return [client, *openssh_options(address, known_hosts(address), asks=True), "--", address.host]

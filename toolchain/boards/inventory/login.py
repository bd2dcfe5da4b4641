"""The command line of the OpenSSH client to log in on a board."""

from __future__ import annotations

from toolchain.boards.inventory.lookup import find_board
from toolchain.errors import UsageError


def login_command(name: str) -> list[str]:
    """Return the command that opens a shell on the board `name`.

    Raises
    ------
    UsageError
        There is no such board, or it is a folder of this host.
    MissingError
        No OpenSSH client is installed.
    """
    transport = find_board(name).transport
    if not transport.is_remote:
        raise UsageError(
            f"board {name} is a folder of this host, so there is no login",
            f"`toolchain board exec {name} -- COMMAND` runs a command there",
        )
    return transport.ssh_command(asks=True)

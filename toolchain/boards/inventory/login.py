"""The OpenSSH client's command line to log in on a board."""

from __future__ import annotations

from toolchain.boards.inventory.lookup import find_board
from toolchain.errors import UsageError


def login_command(name: str) -> list[str]:
    """Return what to execute to get a shell on the board `name`.

    Raises
    ------
    UsageError
        There is no such board, or it is reached without a login.
    MissingError
        No OpenSSH client is here.
    """
    transport = find_board(name).transport
    if not transport.is_remote:
        raise UsageError(
            f"board {name} is a folder of this host: there is nothing to log in to",
            f"`toolchain board exec {name} -- COMMAND` runs a command there",
        )
    return transport.ssh_command(asks=True)

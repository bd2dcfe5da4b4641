"""The SSH address of a board, as the user wrote it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolchain.errors import UsageError

# A leading '-' would be an option of the OpenSSH client; white space would split the word.
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@+$-]*")
_HOST = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:%-]*")
_MAX_PORT = 65535


Way = Literal["paramiko", "openssh"]
"""Who speaks with a board's SSH server: paramiko in this process, or the OpenSSH client."""


@dataclass(frozen=True)
class SshAddress:
    """The SSH address of a board.

    Values that are None come from the user's ssh_config, else from SSH's defaults.

    Attributes
    ----------
    host
        Host name, IP address (IPv6 without brackets) or a `Host` of ssh_config.
    host_key
        The pinned host key, `ssh-ed25519 AAAA…`; no other is accepted.
    identity
        Private key to log in with; None uses the keys of the agent and the usual files.
    jump
        Jump host as `[USER@]HOST[:PORT]`.
    name
        Name of the board, for messages.
    use_config
        Whether the user's ssh_config is read.
    ssh
        Who speaks with its server; auto: paramiko, and the client where that lacks something.
    start_command
        Command that starts an emulated board of this description; empty for another board.
    """

    host: str
    port: int | None
    user: str | None
    host_key: str
    identity: Path | None = None
    jump: str | None = None
    name: str = ""
    use_config: bool = True
    ssh: Literal["auto"] | Way = "auto"
    start_command: str = ""

    @property
    def label(self) -> str:
        """Name of the board in messages."""
        return f"board {self.name}" if self.name else self.host


def parse_address(text: str) -> tuple[str | None, str, int | None]:
    """Return user, host and port of `[USER@]HOST[:PORT]`; an IPv6 address with a port has brackets.

    Raises
    ------
    UsageError
        The text has another form; the message repeats it.
    """
    hint = "write [USER@]HOST[:PORT], such as pi@192.168.1.7 or pi@[fe80::1]:2222"
    user, at, rest = text.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise UsageError(f"{text!r}: {user!r} is not a user's name", hint)
    port = ""
    if bracketed := re.fullmatch(r"\[([^\]]*)\](?::(.*))?", rest):
        host, port = bracketed[1], bracketed[2]
        if ":" not in host:
            raise UsageError(f"{text!r}: {host!r} is not an IPv6 address", hint)
    elif rest.count(":") > 1:
        host = rest
    else:
        host, colon, port = rest.partition(":")
        if colon and not port:
            raise UsageError(f"{text!r}: no port after the ':'", hint)
    if not _HOST.fullmatch(host):
        raise UsageError(f"{text!r}: {host!r} is not a host", hint)
    return user or None, host, _port(text, port) if port else None


def show_address(user: str | None, host: str, port: int | None) -> str:
    """Return the address in the form that `parse_address` reads."""
    shown = f"[{host}]" if ":" in host and port is not None else host
    return (f"{user}@" if user else "") + shown + (f":{port}" if port is not None else "")


def _port(text: str, port: str) -> int:
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= _MAX_PORT):
        raise UsageError(f"{text!r}: {port!r} is not a port", f"ports are 1 to {_MAX_PORT}")
    return int(port)

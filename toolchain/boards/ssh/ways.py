"""Chooses the SSH client of a board: paramiko, or the OpenSSH client.

The client does it where the user's ssh_config, the server or the login wants what paramiko lacks: then a
board is reached as by `ssh`, if later by some hundredths of a second.
"""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.route import config_options, paramiko_config
from toolchain.errors import UsageError
from toolchain.files.plain import expanded

if TYPE_CHECKING:
    from toolchain.boards.ssh.connection import SshConnection

_CONFIG_S = 20.0  # a `Match exec` may ask another machine
ASKED = "its entry says so"
_USUAL = frozenset(
    f"id_{kind}" for kind in ("rsa", "dsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss")
)
_ONLY_CLIENT = ("identityagent", "certificatefile", "pkcs11provider")

_lacking: dict[SshAddress, str] = {}
"""What paramiko lacked for servers that this process has met: they are not tried by it again."""


def connect(address: SshAddress) -> SshConnection:
    """Connect to a board and log in.

    Raises
    ------
    LostError
        The board cannot be reached or does not answer in time.
    UsageError
        The host key is not the pinned one, the login is rejected, or the user's ssh_config is wrong.
    MissingError
        The OpenSSH client is required but not installed.
    """
    from toolchain.boards.ssh import connection
    from toolchain.boards.ssh.authentication import RefusedError
    from toolchain.boards.ssh.client import connect_client

    reason = client_reason(address)
    if reason:
        return connect_client(address, reason)
    try:
        return connection.connect(address)
    except (connection.NoAlgorithmError, RefusedError) as error:
        lacks = error.lacks if isinstance(error, RefusedError) else "algorithms of its server"
        if not (lacks and _may_change(address)):
            raise
        try:
            client = connect_client(address, f"paramiko lacks {lacks}")
        except RefusedError:
            raise error from None  # it names the keys
        _lacking[address] = client.reason
        return client


def ask_host_key(address: SshAddress) -> str:
    """Return the server's host key, without logging in.

    Raises
    ------
    LostError
        The server cannot be reached.
    UsageError
        It wants what paramiko lacks, and nothing else may be used.
    """
    from toolchain.boards.ssh import connection
    from toolchain.boards.ssh.client import ask_host_key_by_client

    if client_reason(address):
        return ask_host_key_by_client(address)
    try:
        return connection.ask_host_key(address)
    except connection.NoAlgorithmError:
        if not _may_change(address):
            raise
        return ask_host_key_by_client(address)


def client_reason(address: SshAddress) -> str:
    """Return why the OpenSSH client is to reach a board, without connecting; empty: paramiko does."""
    if address.ssh != "auto":
        return ASKED if address.ssh == "openssh" else ""
    if address in _lacking:
        return _lacking[address]
    if not address.use_config or shutil.which("ssh") is None:
        return ""
    return _config_reason(address)


def _may_change(address: SshAddress) -> bool:
    return address.ssh == "auto" and shutil.which("ssh") is not None


def _config_reason(address: SshAddress) -> str:
    """Return which option of the user's ssh_config for this host paramiko ignores or reads differently."""
    config = _client_config(address)
    if config is None:
        return ""  # the client refuses the file; paramiko's own message says where
    try:
        read = paramiko_config(address.host)
    except UsageError:
        return "ssh_config has what paramiko does not understand"
    for key in _ONLY_CLIENT:
        if config.get(key, ["none"])[-1].lower() not in ("", "none", "ssh_auth_sock"):
            return f"ssh_config has {key} for it, which paramiko does not know"
    if any("%" in name or "${" in name for name in config.get("identityfile", ())):
        return "ssh_config has an identityfile with tokens for it"
    client = _facts(config, address)
    for key, mine in _facts(read, address).items():
        if mine != client[key]:
            return f"ssh_config has {key} {client[key] or 'none'} for it, and paramiko reads {mine or 'none'}"
    return ""


def _facts(values: Mapping[str, Sequence[str]], address: SshAddress) -> dict[str, str]:
    """Return where an ssh_config leads, as far as the address leaves it open."""

    def last(key: str, usual: str) -> str:
        value = values[key][-1] if key in values else usual
        return "" if value.lower() == "none" else value

    host, port = last("hostname", address.host), str(address.port or last("port", "22"))
    user = address.user or last("user", getpass.getuser())
    files = [str(expanded(name)) for name in values.get("identityfile", ())]
    if all(Path(file).parent == Path.home() / ".ssh" and Path(file).name in _USUAL for file in files):
        files = []
    command = last("proxycommand", "")
    for token, value in (("%h", host), ("%p", port), ("%r", user)):  # paramiko has replaced them already
        command = command.replace(token, value)
    return {
        "hostname": host.lower(),
        "port": port,
        "user": user,
        "identityfile": "" if address.identity else " ".join(files),
        "proxyjump": "" if address.jump else re.sub(r"ssh://|[][]", "", last("proxyjump", "")),
        "proxycommand": "" if address.jump or last("proxyjump", "") else command,
    }


def _client_config(address: SshAddress) -> dict[str, list[str]] | None:
    """Return what the client reads in ssh_config for a host; None if it refuses the file."""
    words = config_options(use_config=True)
    words += ["-p", str(address.port)] if address.port else []
    words += ["-l", address.user] if address.user else []
    try:
        asked = subprocess.run(
            ["ssh", "-G", *words, "--", address.host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CONFIG_S,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if asked.returncode:
        return None
    values: dict[str, list[str]] = {}
    for line in asked.stdout.decode(errors="replace").splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key, []).append(value)
    return values

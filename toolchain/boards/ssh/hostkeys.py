"""Pinned host keys: their fingerprint, and a known_hosts file for the OpenSSH client."""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path

from toolchain.answers import shown
from toolchain.boards.ssh.address import SshAddress
from toolchain.configuration.settings import state_dir
from toolchain.errors import UsageError
from toolchain.files import atomic


def checked_host_key(text: str) -> str:
    """Return a host key as `TYPE BASE64`, without its comment.

    Raises
    ------
    UsageError
        The text is not a public key in OpenSSH's format.
    """
    words = text.split()
    try:
        blob = base64.b64decode(words[1], validate=True)
        size = int.from_bytes(blob[:4], "big")
        if blob[4 : 4 + size] != words[0].encode() or not size:
            raise ValueError("type and content differ")
    except (IndexError, ValueError, binascii.Error) as error:
        raise UsageError(
            f"{shown(text)} is not a host key", "it looks like: ssh-ed25519 AAAAC3Nz…"
        ) from error
    return f"{words[0]} {words[1]}"


def fingerprint(host_key: str) -> str:
    """Return the fingerprint `SHA256:…`, as ssh-keygen prints it."""
    digest = hashlib.sha256(base64.b64decode(host_key.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def other_key(address: SshAddress, offered: str) -> UsageError:
    """Return the error for another host key than the pinned one; `offered` is its fingerprint, or a noun."""
    if address.start_command:
        why = "either another program has its port now, or its key was made anew inside it"
        hint = (
            f"its key cannot be pinned anew; make the board anew, which removes what it holds: "
            f"`toolchain board emulate stop {address.name} && {address.start_command}`"
        )
    else:
        why = "either the board was reinstalled or someone intercepts the connection"
        hint = f"if it was reinstalled, pin its new key: `toolchain board repin {address.name or 'NAME'}`"
    return UsageError(
        f"{address.label}: the host key of {address.host} has changed: it offers {offered}, pinned is "
        f"{fingerprint(address.host_key)}; {why}",
        hint,
    )


def write_known_hosts(address: SshAddress) -> Path:
    """Write a known_hosts file with the pinned key; return the file.

    Its one line has the alias that `route.openssh_options` sets.
    """
    alias = address.name or address.host
    line = f"{alias} {address.host_key}\n"
    file = state_dir() / "known_hosts" / hashlib.sha256(line.encode()).hexdigest()[:16]
    if not file.is_file() or file.read_text() != line:
        atomic.make_private_folder(state_dir())
        atomic.write_text(file, line)
    return file

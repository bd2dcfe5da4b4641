"""Finds keys by what a user types for `--key`: a file, `agent:FINGERPRINT` or a `pkcs11:` URI."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from toolchain.errors import ToolchainError, UsageError
from toolchain.releases.envelope import PublicKey, Signer
from toolchain.releases.signers.openssh import (
    ED25519,
    KeyFile,
    open_signer,
    public_key,
    read_key,
    string,
    take,
)

# Keys in the user's ssh-agent, by the agent's protocol (draft-ietf-sshm-ssh-agent).
#
# paramiko's client waits forever for an agent that does not answer; this one has deadlines.

SOCKET = "SSH_AUTH_SOCK"
_LIST, _LISTED, _SIGN, _SIGNED = 11, 12, 13, 14
_ANSWER_S = 10.0
_SIGN_S = 120.0  # a person may have to confirm
_MOST_BYTES = 256 * 1024  # OpenSSH's own limit of a message


@dataclass(frozen=True)
class AgentSigner:
    """A key whose private half is in the agent."""

    key: PublicKey

    def sign(self, message: bytes) -> bytes:
        """Let the agent sign.

        Raises
        ------
        UsageError
            The agent refuses, such as when its user does.
        ToolchainError
            The agent does not answer.
        """
        blob = string(ED25519.encode()) + string(self.key.raw)
        request = bytes([_SIGN]) + string(blob) + string(message) + bytes(4)
        answer = _ask(request, _SIGN_S)
        if answer[:1] != bytes([_SIGNED]):
            raise UsageError(
                f"the agent refused to sign with key {self.key.fingerprint}", "`ssh-add -l` lists its keys"
            )
        try:
            kind, rest = take(take(answer[1:])[0])
            signature = take(rest)[0]
        except ValueError as error:
            raise _odd(str(error)) from error
        if kind != ED25519.encode():
            raise _odd(f"its signature is of kind {kind[:40]!r}")
        return signature


def agent_keys() -> list[PublicKey]:
    """Return the Ed25519 keys in the agent; none if there is no agent.

    Raises
    ------
    ToolchainError
        The agent does not answer, or not as agents do.
    """
    if not os.environ.get(SOCKET):
        return []
    answer = _ask(bytes([_LIST]), _ANSWER_S)
    if answer[:1] != bytes([_LISTED]):
        return []
    keys, rest = [], answer[5:]
    try:
        while rest:
            blob, rest = take(rest)
            _, rest = take(rest)  # the comment
            try:
                keys.append(public_key(blob))
            except ValueError:
                continue  # of another kind
    except ValueError as error:
        raise _odd(str(error)) from error
    return keys


def _ask(request: bytes, seconds: float) -> bytes:
    with _connected(seconds) as connection:
        connection.sendall(string(request))
        size = int.from_bytes(_receive(connection, 4), "big")
        if size > _MOST_BYTES:
            raise _odd(f"its answer has {size} bytes")
        return _receive(connection, size)


@contextmanager
def _connected(seconds: float) -> Iterator[socket.socket]:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(os.environ.get(SOCKET, ""))
            yield connection
    except OSError as error:  # a timeout too
        raise ToolchainError(
            f"the ssh-agent at {SOCKET}={os.environ.get(SOCKET, '')} does not answer: {error}",
            "start one: eval $(ssh-agent), then ssh-add KEY; or give the key's file",
        ) from error


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise _odd("it ended in the middle of an answer")
        data += chunk
    return data


def _odd(problem: str) -> ToolchainError:
    return ToolchainError(
        f"the ssh-agent does not answer as agents do: {problem}", "give the key's file instead"
    )


AGENT = "agent:"
PKCS11 = "pkcs11:"


class Secrets(Protocol):
    """Asks the user for secrets."""

    def passphrase(self, path: Path) -> str:
        """Return the passphrase of a key file."""

    def pin(self, token: str) -> str:
        """Return the PIN of a PKCS#11 token."""


@dataclass(frozen=True)
class NamedKey:
    """A key as a user named it.

    Attributes
    ----------
    file
        The file that it was read from; None for an agent's or a module's.
    """

    name: str
    key: PublicKey
    file: KeyFile | None = None


def find_key(name: str) -> NamedKey:
    """Return the public half of a key; asks for no passphrase, and for a PIN never.

    Raises
    ------
    UsageError
        There is no such key, or it is of a kind that does not sign releases.
    """
    if name.startswith(PKCS11):
        from toolchain.releases.signers.hsm import module_key

        return NamedKey(name, module_key(name))
    if name.startswith(AGENT):
        return NamedKey(name, _agent_key(name.removeprefix(AGENT)))
    file = read_key(Path(name))
    return NamedKey(name, file.key, file)


def find_signer(named: NamedKey, secrets: Secrets) -> Signer | None:
    """Return what signs with a key; None for a public key whose private half is not in the agent.

    Raises
    ------
    UsageError
        The passphrase or PIN is wrong.
    """
    if named.name.startswith(PKCS11):
        from toolchain.releases.signers.hsm import module_signer

        return module_signer(named.name, named.key, secrets.pin)
    if named.file is not None and named.file.private:
        return open_signer(named.file, secrets.passphrase)
    return AgentSigner(named.key) if named.file is None or named.key in agent_keys() else None


def need_signer(name: str, secrets: Secrets) -> Signer:
    """Return what signs with the key of this name.

    Raises
    ------
    UsageError
        There is no such key, or its private half is not here.
    """
    signer = find_signer(find_key(name), secrets)
    if signer is None:
        raise UsageError(
            f"--key {name} is a public key, and its private half is not in an ssh-agent",
            "give the private key's file, or add it to the agent: ssh-add KEY",
        )
    return signer


def _agent_key(fingerprint: str) -> PublicKey:
    keys = {key.fingerprint: key for key in agent_keys()}
    if fingerprint not in keys:
        raise UsageError(
            f"--key {AGENT}{fingerprint}: the agent has no Ed25519 key of this fingerprint",
            f"it has: {', '.join(keys)}" if keys else "add it: ssh-add KEY; then `ssh-add -l` lists it",
        )
    return keys[fingerprint]
